//! Bounds that are the same for every server. Those that are flags stand in
//! [`Limits`](super::Limits).

/// Bytes of a request's head, the request line included.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Lines of a request's head, beside the first. It is what the HTTP library
/// takes by itself; told so, it would allocate for them.
pub(crate) const MAX_HEADERS: usize = 100;

/// Largest item, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 64 << 10;

/// Largest item of a query, in bytes; a body takes more.
pub(crate) const MAX_QUERY_ITEM_BYTES: usize = 4 << 10;

/// Longest `Idempotency-Key`, in bytes.
pub(crate) const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// What a name may be, of a filter or of an import, in words.
pub(crate) fn name_in_words(longest: usize) -> String {
    format!("1 to {longest} characters of A-Z a-z 0-9 . _ : ~ -")
}

/// Most filters that one page of the list holds.
pub(crate) const MAX_LISTED: usize = 1000;
