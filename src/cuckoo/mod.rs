//! Pure mathematics of cuckoo filters.
pub mod classic;
