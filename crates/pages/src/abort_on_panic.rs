//! A thread that may not end without saying so.

/// Ends the process if its thread panics.
///
/// A lane that stops in the middle would leave its filters without a writer
/// and the log uncut, quietly. Better to start again: recovery is made for it.
pub struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
