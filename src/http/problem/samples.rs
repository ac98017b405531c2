//! An error of each kind, for the examples of the OpenAPI document.

use super::codes::Code;
use super::error::HttpError;
use super::fields::{FieldError, Place};
use super::used_up::{Exhausted, Scarce};
use crate::access::Scope;
use crate::backup::{BackupError, BackupId};
use crate::chain::params::Difference;
use crate::engine::{
    DiskShort, DumpError, EngineError, FilterName, Holds, RestoreError, StoreError,
};
use crate::http::bounds::MAX_QUERY_ITEM_BYTES;
use crate::replication::Halt;
use crate::share::UsedUp;
use std::sync::{Arc, LazyLock};

/// An error of this kind. That there is one of each is tested.
pub(crate) fn sample(code: Code) -> Option<&'static HttpError> {
    static SAMPLES: LazyLock<Vec<HttpError>> = LazyLock::new(samples);
    SAMPLES.iter().find(|error| error.code() == code)
}

fn samples() -> Vec<HttpError> {
    let store = || {
        Arc::new(StoreError::Io {
            doing: "writing",
            source: "no space left".into(),
        })
    };
    vec![
        HttpError::MalformedJson {
            reason: "EOF while parsing a list at line 1 column 17".to_owned(),
        },
        HttpError::MalformedPath,
        HttpError::MalformedQuery {
            parameter: "item".to_owned(),
            reason: "is given twice",
        },
        HttpError::UnreadableBody,
        HttpError::UnreadableHead,
        HttpError::ApiKeyMissing,
        HttpError::ApiKeyUnknown,
        HttpError::ApiKeyExpired,
        HttpError::ApiKeyRevoked,
        HttpError::ScopeInsufficient {
            has: Scope::Read,
            needs: Scope::Admin,
        },
        HttpError::FilterForbidden {
            prefix: "shop:".to_owned(),
        },
        HttpError::ServerForbidden {
            prefix: "shop:".to_owned(),
        },
        HttpError::ForeignHost,
        HttpError::ClusterKeyInvalid,
        HttpError::HistoryDiffers {
            reason: "its history of lane 3 has another record 4711".to_owned(),
        },
        HttpError::CertificateMissing,
        HttpError::ForeignOrigin,
        HttpError::UnknownRoute,
        match FilterName::parse("coupons") {
            Ok(name) => HttpError::Engine(EngineError::NotFound { name }),
            Err(invalid) => HttpError::InvalidKey(invalid),
        },
        HttpError::MethodNotAllowed,
        HttpError::BodyTimeout {
            idle_seconds: 30,
            total_seconds: 300,
        },
        HttpError::HeadTimeout,
        HttpError::HeadTooLarge,
        HttpError::FilterDiffers {
            differences: vec![Difference {
                field: "capacity",
                requested: "2000".to_owned(),
                existing: "1000".to_owned(),
            }],
        },
        HttpError::FilterExists,
        HttpError::BodyTooLarge { limit: 32 << 20 },
        HttpError::BatchTooLarge { limit: 250_000 },
        HttpError::Engine(EngineError::TooManyPages {
            needed: 400_000,
            bound: 100_000,
        }),
        HttpError::Engine(EngineError::TooManyChangeProbes {
            items: 250_000,
            sub_filters: 64,
            bound: 4_000_000,
        }),
        HttpError::ItemTooLongForQuery {
            given: 5000,
            limit: MAX_QUERY_ITEM_BYTES,
            post: "POST /filters/{key}/exists",
        },
        HttpError::UnsupportedMediaType {
            given: "text/html".to_owned(),
            allowed: "application/json, or text/plain with one item per line",
        },
        HttpError::UnsupportedContentEncoding,
        match FilterName::parse("a b") {
            Ok(_) => HttpError::MalformedPath,
            Err(invalid) => HttpError::InvalidKey(invalid),
        },
        HttpError::InvalidFields(vec![FieldError {
            place: Place::Body("/capacity".to_owned()),
            given: "-5".to_owned(),
            allowed: "an integer from 1 to 1099511627776".to_owned(),
        }]),
        HttpError::Engine(EngineError::NotForThisFilter {
            holds: Holds::Values(12),
        }),
        HttpError::Engine(EngineError::TooManyFilters { bound: 1000 }),
        HttpError::Engine(EngineError::CompactionRunning),
        HttpError::Engine(EngineError::CompactionNotFound),
        HttpError::Engine(EngineError::ImportNotFound),
        HttpError::Engine(EngineError::ImportRunning),
        HttpError::Engine(EngineError::ImportsFull),
        HttpError::InvalidDeadline {
            given: "soon".to_owned(),
        },
        HttpError::InvalidIdempotencyKey,
        HttpError::IdempotencyKeyNotTaken {
            instead: "use an import_id",
        },
        HttpError::PodNotReady {
            reason: "2 of 16 lanes are behind other pods for more than 2 seconds".to_owned(),
        },
        HttpError::InvalidPosition {
            given: "17".to_owned(),
        },
        HttpError::Engine(EngineError::NotLeading),
        HttpError::Engine(EngineError::LogUnavailable),
        HttpError::Engine(EngineError::LogSilent),
        HttpError::Engine(EngineError::LaneHalted(Arc::new(Halt::Forked { at: 4711 }))),
        HttpError::Engine(EngineError::Behind),
        HttpError::Engine(EngineError::RetryConflict),
        HttpError::Engine(EngineError::RetryFilterGone),
        HttpError::Engine(EngineError::RetryInFlight),
        HttpError::Engine(EngineError::RetriesFull),
        HttpError::Panicked,
        HttpError::Engine(EngineError::OutcomeUnknown(store())),
        HttpError::Engine(EngineError::Store(store())),
        HttpError::Starting,
        HttpError::Engine(EngineError::DeadlineExceeded),
        HttpError::Draining,
        HttpError::UsedUp(Exhausted {
            what: Scarce::Bodies,
            used_up: UsedUp::All { bound: 256 << 20 },
        }),
        HttpError::UsedUp(Exhausted {
            what: Scarce::Requests,
            used_up: UsedUp::Share {
                held: 512,
                bound: 1024,
            },
        }),
        HttpError::FilterTaken,
        HttpError::FilterChanged,
        RestoreError::Dump(DumpError::Corrupt("it ends early".to_owned())).into(),
        RestoreError::Dump(DumpError::Newer { found: 4 }).into(),
        RestoreError::Dump(DumpError::Older { found: 1 }).into(),
        RestoreError::TooLarge {
            bytes: 1 << 40,
            bound: 16 << 30,
        }
        .into(),
        HttpError::NoCluster,
        HttpError::BackupsOff,
        HttpError::BackupNotFound,
        match BackupId::parse("20261121T114517Z") {
            Some(id) => HttpError::Backup(BackupError::Running { id }),
            None => HttpError::BackupNotFound,
        },
        HttpError::Engine(EngineError::TooManyFiltersInAll { bound: 10_000 }),
        HttpError::Engine(EngineError::OverKeyQuota {
            what: "filters",
            flag: "--max-filters-per-key",
            held: 100,
            most: 100,
        }),
        HttpError::RateLimited { seconds: 1 },
        HttpError::Engine(EngineError::OverQuota {
            needed: 25_000_000,
            used: 90_000_000,
            bound: 100_000_000,
        }),
        HttpError::Engine(
            DiskShort {
                free_bytes: 800_000_000,
                reserve_bytes: 1 << 30,
            }
            .into(),
        ),
        HttpError::Engine(EngineError::OutcomeUnknown(Arc::new(StoreError::NoSpace {
            doing: "committing",
            source: "no space left".into(),
        }))),
        HttpError::Backup(BackupError::NoRoom {
            directory: std::path::PathBuf::new(),
            needed: 200_000_000,
            free: 100_000_000,
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_sample_of_each_kind() {
        let mut kinds: Vec<&str> = samples().iter().map(|error| error.code().name()).collect();
        let mut all: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        kinds.sort_unstable();
        all.sort_unstable();
        assert_eq!(kinds, all);
        all.dedup();
        assert_eq!(all.len(), Code::ALL.len(), "a name is used twice");
    }
}
