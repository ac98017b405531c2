//! What a client sends that is no command. The connection ends with it, because
//! nobody knows where the next command would begin.

/// Why bytes are no command, in the words of redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The number of arguments is none, or too large.
    #[error("invalid multibulk length")]
    ArgumentCount,
    /// The length of an argument is none, or too large.
    #[error("invalid bulk length")]
    ArgumentLength,
    /// Something else than the length of an argument.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoArgument(u8),
    /// The line with the number of arguments does not end.
    #[error("too big mbulk count string")]
    LongArgumentCount,
    /// The line with the length of an argument does not end.
    #[error("too big bulk count string")]
    LongArgumentLength,
    /// A line does not end.
    #[error("too big inline request")]
    LongLine,
    /// A quote in a line is not closed, or something follows it at once.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// More arguments than a client may send that has not said who it is.
    #[error("unauthenticated multibulk length")]
    ArgumentCountBeforeAuth,
    /// A longer argument than such a client may send.
    #[error("unauthenticated bulk length")]
    ArgumentLengthBeforeAuth,
    /// Another protocol: HTTP, or TLS where none is spoken. It gets no reply.
    #[error("another protocol")]
    Foreign,
}
