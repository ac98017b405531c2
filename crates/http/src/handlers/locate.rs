//! Where an item lies in a filter.

use crate::answer::json;
use crate::chain::locate::{LocatedBucket, Location};
use crate::extract::{Target, query_item};
use crate::problem::Result;
use crate::words::SlotUse;
use axum::http::Uri;
use serde::Serialize;

/// The slots in which an item lies.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct LocatedBody {
    /// Copies of the item, never too low, as in `/count`.
    count: u64,
    /// Sub-filters of the filter.
    sub_filters: usize,
    /// The newest 256 of them, oldest first.
    places: Vec<LocationBody>,
}

/// The item's candidate buckets in one sub-filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct LocationBody {
    /// Position of the sub-filter; 0 is the oldest.
    sub_filter: u32,
    /// What a slot holds of the item.
    fingerprint: u32,
    /// Copies that are counted beside the pages, without a slot.
    counted: u64,
    /// The one or two buckets in which the item may lie.
    buckets: Vec<BucketBody>,
}

/// A bucket and its slots.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BucketBody {
    /// Position of the bucket in the sub-filter.
    bucket: u64,
    /// The page that it lies on.
    page: u32,
    /// Its first slot on the page.
    first_slot: u16,
    /// What its slots hold.
    #[cfg_attr(test, schema(inline))]
    slots: Vec<SlotUse>,
}

#[cfg(test)]
pub(crate) fn example() -> serde_json::Value {
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

/// `GET /filters/{key}/locate`.
pub(crate) async fn get_item_location(Target(engine, name): Target, uri: Uri) -> Result {
    let asked = query_item(&uri, "POST /filters/{key}/exists")?;
    let item = asked.get(0).unwrap_or_default();
    let located = engine.locate(&name, item).await?;
    let bucket = |it: &LocatedBucket| BucketBody {
        bucket: it.bucket.0,
        page: it.page,
        first_slot: it.first_slot,
        slots: it.slots.iter().map(|&slot| slot.into()).collect(),
    };
    let place = |it: &Location| LocationBody {
        sub_filter: it.position,
        fingerprint: it.fingerprint.0,
        counted: it.counted,
        buckets: it.buckets.iter().map(bucket).collect(),
    };
    json(&LocatedBody {
        count: located.count,
        sub_filters: located.sub_filters,
        places: located.locations.iter().map(place).collect(),
    })
}
