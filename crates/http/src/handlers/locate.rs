//! Where an item lies in a filter.

use crate::answer::json;
use crate::chain::locate::{Located, LocatedBucket, Location};
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
    json(&LocatedBody::from(&located))
}
