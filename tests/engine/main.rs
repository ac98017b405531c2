//! The engine as its callers see it: against an exact model, under hand-driven
//! interleavings, with stores that fail, and across restarts.

mod faults;
mod gated;
mod interleavings;
mod model;
mod readers;
mod support;
mod waiting;
