//! What the visitors of items and entries have in common: each names the kinds of
//! JSON that it does not take, and refuses them by its `wrong`.

use serde::Deserialize;
use std::borrow::Cow;

/// What was given in the place of something else, as JSON or in words, in a few words.
pub(super) fn kind_of(given: &str) -> &str {
    match given.trim_start().as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        Some(b'n') => "null",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'-' | b'0'..=b'9') => "a number",
        _ => given,
    }
}

/// A string, taken as it stands unless something in it is escaped.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Says what a visitor expects, and refuses everything else that JSON has.
macro_rules! refusing {
    ($allowed:expr, $($kind:ident),*) => {
        fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
            f.write_str($allowed)
        }
        $(refusing!(@ $kind);)*
    };
    (@ string) => {
        fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            self.wrong($crate::problem::excerpt(&format!("{text:?}")))
        }
    };
    (@ number) => {
        fn visit_u64<E: ::serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
            self.wrong(number.to_string())
        }
        refusing!(@ other_number);
    };
    (@ other_number) => {
        fn visit_i64<E: ::serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
            self.wrong(number.to_string())
        }

        fn visit_f64<E: ::serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
            self.wrong(format!("{number:?}"))
        }
    };
    (@ word) => {
        fn visit_bool<E: ::serde::de::Error>(self, word: bool) -> Result<Self::Value, E> {
            self.wrong(word.to_string())
        }

        fn visit_unit<E: ::serde::de::Error>(self) -> Result<Self::Value, E> {
            self.wrong("null".to_owned())
        }
    };
    (@ array) => {
        fn visit_seq<A: ::serde::de::SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            self.wrong("an array".to_owned())
        }
    };
    (@ object) => {
        fn visit_map<A: ::serde::de::MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            self.wrong("an object".to_owned())
        }
    };
}

/// A seed that is its own visitor, of whatever comes, and keeps what it read elsewhere.
macro_rules! seed_of_any {
    ($seed:ident) => {
        impl<'de> ::serde::de::DeserializeSeed<'de> for $seed<'_> {
            type Value = ();

            fn deserialize<D: ::serde::de::Deserializer<'de>>(
                self,
                from: D,
            ) -> Result<(), D::Error> {
                from.deserialize_any(self)
            }
        }
    };
}

pub(super) use {refusing, seed_of_any};
