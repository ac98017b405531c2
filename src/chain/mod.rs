//! One filter: a chain of sub-filters and the rules of adding, asking,
//! counting, deleting and growing, over pages it is handed. No I/O, no clock,
//! no randomness: the same commands in the same order give the same bytes.
pub mod params;
