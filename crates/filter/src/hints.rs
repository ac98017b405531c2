//! Hints to the processor about memory. They change no answer.
//!
//! Unsafe code, as in few other files. A batch of questions about a filter that
//! is larger than the processor's caches waits for memory at every probe; asking
//! for the words of 32 items first lets those waits overlap. Rust has no safe way
//! to say it. Where there is no such instruction, nothing is done.

#![expect(
    unsafe_code,
    reason = "prefetch instructions take raw pointers and have no safe wrapper"
)]

/// Asks for the cache line that `it` lies on, to be read soon.
#[inline(always)]
pub fn prefetch<T>(it: &T) {
    let address = std::ptr::from_ref(it);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing into the program and
        // can't fault whatever the address is; SSE is part of x86-64. The
        // address is that of a live reference all the same.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: as above: `prfm` is a hint, and changes neither memory nor
        // flags.
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
