//! Where an item lies in a filter.

use crate::chain::locate::{Located, LocatedBucket, Location};
use crate::http::answer::json;
use crate::http::extract::{CallerEngine, Key, query_item};
use crate::http::openapi::facts::{ENGINE, KEYED, MISSING, QUESTION};
use crate::http::openapi::parameters::{FilterKey, OneItem};
use crate::http::problem::HttpError;
use crate::http::words::SlotUse;
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

/// The slots in which an item lies.
#[derive(Serialize, ToSchema)]
pub(crate) struct LocatedBody {
    /// Copies of the item, never too low, as in `/count`.
    #[schema(example = 1)]
    count: u64,
    /// Sub-filters of the filter.
    #[schema(example = 1)]
    sub_filters: usize,
    /// The newest 256 of them, oldest first.
    places: Vec<LocationBody>,
}

/// The item's candidate buckets in one sub-filter.
#[derive(Serialize, ToSchema)]
pub(crate) struct LocationBody {
    /// Position of the sub-filter; 0 is the oldest.
    #[schema(example = 0)]
    sub_filter: u32,
    /// What a slot holds of the item.
    #[schema(example = 19_280)]
    fingerprint: u32,
    /// Copies that are counted beside the pages, without a slot.
    #[schema(example = 0)]
    counted: u64,
    /// The one or two buckets in which the item may lie.
    buckets: Vec<BucketBody>,
}

/// A bucket and its slots.
#[derive(Serialize, ToSchema)]
pub(crate) struct BucketBody {
    /// Position of the bucket in the sub-filter.
    #[schema(example = 20_140)]
    bucket: u64,
    /// The page that it lies on.
    #[schema(example = 39)]
    page: u32,
    /// Its first slot on the page.
    #[schema(example = 688)]
    first_slot: u16,
    /// What its slots hold.
    #[schema(inline, example = json!(["other", "match", "empty", "empty"]))]
    slots: Vec<SlotUse>,
}

impl From<&Located> for LocatedBody {
    fn from(located: &Located) -> LocatedBody {
        LocatedBody {
            count: located.count,
            sub_filters: located.sub_filters,
            places: located.locations.iter().map(LocationBody::from).collect(),
        }
    }
}

impl From<&Location> for LocationBody {
    fn from(location: &Location) -> LocationBody {
        LocationBody {
            sub_filter: location.position,
            fingerprint: location.fingerprint.0,
            counted: location.counted,
            buckets: location.buckets.iter().map(BucketBody::from).collect(),
        }
    }
}

impl From<&LocatedBucket> for BucketBody {
    fn from(bucket: &LocatedBucket) -> BucketBody {
        BucketBody {
            bucket: bucket.bucket.0,
            page: bucket.page,
            first_slot: bucket.first_slot,
            slots: bucket.slots.iter().map(|&slot| slot.into()).collect(),
        }
    }
}

fn example() -> serde_json::Value {
    serde_json::json!(LocatedBody {
        count: 1,
        sub_filters: 1,
        places: vec![LocationBody {
            sub_filter: 0,
            fingerprint: 19_280,
            counted: 0,
            buckets: vec![
                BucketBody {
                    bucket: 20_140,
                    page: 39,
                    first_slot: 688,
                    slots: vec![
                        SlotUse::Other,
                        SlotUse::Match,
                        SlotUse::Empty,
                        SlotUse::Empty
                    ],
                },
                BucketBody {
                    bucket: 20_339,
                    page: 39,
                    first_slot: 1484,
                    slots: vec![SlotUse::Empty; 4],
                },
            ],
        }],
    })
}

/// Locate an item
///
/// The slots in which the item's fingerprint lies, and those in which it might,
/// for inspecting a filter. Of other items it shows only that a slot is used.
#[utoipa::path(
    get,
    path = "/filters/{key}/locate",
    operation_id = "get_item_location",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION]))),
    params(FilterKey, OneItem),
    responses((status = 200, description = "The item's candidate buckets, by sub-filter.", body = LocatedBody, example = json!(example())))
)]
pub(crate) async fn get_location(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    let asked = query_item(&uri, "POST /filters/{key}/exists")?;
    let item = asked.get(0).unwrap_or_default();
    let located = engine.locate(&name, item).await?;
    json(&LocatedBody::from(&located))
}
