//! Refused fields: where they stand, what was given, what is allowed.

/// Where in a request a refused field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    /// JSON pointer (RFC 6901) into the body; empty = the body itself.
    Body(String),
    /// Name of a query parameter.
    Query(String),
}

/// One refused field: what was given, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) place: FieldPlace,
    pub(crate) given: String,
    pub(crate) allowed: String,
}

impl FieldError {
    pub(crate) fn new(
        place: FieldPlace,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> FieldError {
        FieldError {
            place,
            given: given.into(),
            allowed: allowed.into(),
        }
    }

    /// The whole sentence.
    pub(super) fn sentence(&self) -> String {
        let name = match &self.place {
            FieldPlace::Body(pointer) if pointer.is_empty() => "the body",
            FieldPlace::Body(pointer) => pointer.as_str(),
            FieldPlace::Query(name) => name.as_str(),
        };
        format!("{name} is {}, allowed is {}", self.given, self.allowed)
    }
}

/// The sentences of all of them.
pub(super) fn refusals(errors: &[FieldError]) -> String {
    let sentences: Vec<String> = errors.iter().map(FieldError::sentence).collect();
    sentences.join("; ")
}

/// The start of what a client wrote, short enough for an answer.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.is_empty() {
        return "empty".to_owned();
    }
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
