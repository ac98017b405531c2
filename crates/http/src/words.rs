//! Words that stand in bodies for what the engine has enums for. Each word is
//! the name of its variant here.

use crate::backup;
use crate::chain::locate;
use crate::engine;
use serde::Serialize;

/// Enums of words, and which variant of the engine's each word stands for.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident for $source:ty { $($word:ident),* })*) => {
        $(
            #[derive(Clone, Copy, Debug, Serialize)]
            #[cfg_attr(test, derive(utoipa::ToSchema))]
            #[serde(rename_all = "snake_case")]
            $(#[$about])*
            pub(crate) enum $name {
                $($word),*
            }

            impl From<$source> for $name {
                fn from(source: $source) -> $name {
                    match source {
                        $(<$source>::$word => $name::$word,)*
                    }
                }
            }
        )*
    };
}

words! {
    /// `writing`: the archive is being written; `verifying`: it is being read again, and what it contains is compared; `complete`; `failed`: nothing of it is stored.
    BackupState for backup::BackupState { Writing, Verifying, Complete, Failed }

    /// `running`: a request is in flight; `interrupted`: it can be resumed; `complete`: the stream ended.
    ImportState for engine::ImportState { Running, Interrupted, Complete }

    /// `too_long`: more than 64 KiB; `not_json`; `not_an_item`: JSON, but neither a string nor an integer; `not_an_entry`: not an item with a value, or a row, which those of the filter have; `value_too_large`: more than `value_bits` of the filter allow; `unknown_value`: the filter does not know the value of an attribute.
    BadLine for engine::BadLine { TooLong, NotJson, NotAnItem, NotAnEntry, ValueTooLarge, UnknownValue }

    /// `running`; `done`: the emptied sub-filters are removed; `overtaken`: adds needed the sub-filters that were being emptied; `no_room`: an entry did not fit into the older sub-filters; `failed`: the storage failed repeatedly, or the page cache is too small.
    CompactionState for engine::CompactionState { Running, Done, Overtaken, NoRoom, Failed }

    /// The limit that was reached; only when a result is `full`.
    FullReason for engine::FullReason { ExpansionOff, MaxExpansions, MaxFilterBytes, GrowthLimit, MaxValuesPerItem }

    /// `match`: the item's fingerprint, or an equal one of another item; `other`: another fingerprint; `empty`: none.
    SlotUse for locate::SlotUse { Empty, Match, Other }
}

#[cfg(test)]
mod schemas {
    use super::FullReason;
    use crate::schemas::nullable;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    impl FullReason {
        /// The schema of the limit that items met, if any did.
        pub(crate) fn met() -> RefOr<Schema> {
            nullable::<FullReason>("The limit that was reached; null when there were none.")
        }

        /// The schema of the limit that ends a filter's growth, if any does.
        pub(crate) fn stopping() -> RefOr<Schema> {
            nullable::<FullReason>(
                "The limit that ends its growth at the last stage; null: it can grow further.",
            )
        }
    }
}
