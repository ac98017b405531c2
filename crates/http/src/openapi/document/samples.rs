//! An error of each kind, for the examples of the OpenAPI document.

use crate::access::Scope;
use crate::backup::{BackupError, BackupId};
use crate::bounds::MAX_QUERY_ITEM_BYTES;
use crate::chain::params::Difference;
use crate::codes::Code;
use crate::engine::{
    DiskShort, DumpError, EngineError, FilterName, Holds, RestoreError, StoreError,
};
use crate::problem::HttpError;
use crate::server::refusal::Refusal;
use crate::server::used_up::{Exhausted, Scarce};
use crate::share::UsedUp;
use cuckood_cluster::Halt;
use std::sync::{Arc, LazyLock};

/// An error of this kind.
pub(super) fn sample(code: Code) -> HttpError {
    static SAMPLES: LazyLock<Vec<HttpError>> = LazyLock::new(samples);
    let sample = SAMPLES.iter().find(|error| error.code() == code);
    sample.cloned().unwrap_or(HttpError::Plain(code))
}

/// Of the kinds of which there is more to tell.
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
        HttpError::MalformedQuery {
            parameter: "item".to_owned(),
            reason: "is given twice",
        },
        Refusal::ScopeInsufficient {
            has: Scope::Read,
            needs: Scope::Admin,
        }
        .into(),
        HttpError::FilterForbidden {
            prefix: "shop:".to_owned(),
        },
        HttpError::ServerForbidden {
            prefix: "shop:".to_owned(),
        },
        HttpError::HistoryDiffers {
            reason: "its history of lane 3 has another record 4711".to_owned(),
        },
        match FilterName::parse("coupons") {
            Ok(name) => HttpError::Engine(EngineError::NotFound { name }),
            Err(invalid) => HttpError::InvalidKey(invalid),
        },
        HttpError::BodyTimeout {
            idle_seconds: 30,
            total_seconds: 300,
        },
        HttpError::FilterDiffers {
            differences: vec![Difference {
                field: "capacity",
                requested: "2000".to_owned(),
                existing: "1000".to_owned(),
            }],
        },
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
        HttpError::RangeBeyondEnd { bytes: 1_048_896 },
        match FilterName::parse("a b") {
            Ok(_) => HttpError::Plain(Code::MalformedPath),
            Err(invalid) => HttpError::InvalidKey(invalid),
        },
        HttpError::field(
            "/capacity".to_owned(),
            "-5",
            "an integer from 1 to 1099511627776",
        ),
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
        HttpError::InvalidIdempotencyLifetime {
            given: "90s".to_owned(),
        },
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
        HttpError::Engine(EngineError::RetriesFull {
            bound: 268_435_456,
            lasting: 250_000_000,
            first_ends_in: 17,
        }),
        HttpError::Engine(EngineError::OutcomeUnknown(store())),
        HttpError::Engine(EngineError::Store(store())),
        HttpError::Engine(EngineError::DeadlineExceeded),
        Refusal::UsedUp(Exhausted {
            what: Scarce::Bodies,
            used_up: UsedUp::All { bound: 256 << 20 },
        })
        .into(),
        Refusal::UsedUp(Exhausted {
            what: Scarce::Requests,
            used_up: UsedUp::Share {
                held: 512,
                bound: 1024,
            },
        })
        .into(),
        RestoreError::Dump(DumpError::Corrupt("it ends early".to_owned())).into(),
        RestoreError::Dump(DumpError::Newer(
            "the file has format version 4, this program reads 1 alone".to_owned(),
        ))
        .into(),
        RestoreError::TooLarge {
            bytes: 1 << 40,
            bound: 16 << 30,
        }
        .into(),
        match BackupId::parse("20261121T114517Z") {
            Some(id) => HttpError::Backup(BackupError::Running { id }),
            None => HttpError::Plain(Code::BackupNotFound),
        },
        HttpError::Engine(EngineError::TooManyFiltersInAll { bound: 10_000 }),
        HttpError::Engine(EngineError::OverKeyQuota {
            what: "filters",
            flag: "--max-filters-per-key",
            held: 100,
            most: 100,
        }),
        Refusal::RateLimited { seconds: 1 }.into(),
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
    fn each_kind_has_one_sample_or_a_sentence_of_its_own() {
        let samples: Vec<Code> = samples().iter().map(HttpError::code).collect();
        for &code in Code::ALL {
            let told = usize::from(code.sentence() != code.title());
            let sampled = samples.iter().filter(|it| **it == code).count();
            assert_eq!(told + sampled, 1, "{}", code.name());
        }
    }
}
