//! What a filter was asked to be. A [`FilterParams`] that exists is valid:
//! every limit is checked in [`FilterParams::resolve`], once.
//!
//! | file | what it owns |
//! |---|---|
//! | `limits.rs` | the limits, as numbers |
//! | `request.rs` | [`FilterRequest`], and the server's [`Defaults`] |
//! | `resolve.rs` and `resolve/` | from these to [`FilterParams`], with all checks |
//! | `refusals.rs` | [`ParamsError`]: a field that is refused, and all of them at once |
//! | `filter_params.rs` | [`FilterParams`]: what is stored, and the geometry that follows |
//! | `growth.rs` | [`GrowthBounds`]: how far `paged` may grow |
//! | `placement.rs` | [`LayoutKind`] and [`Placement`] |
//! | `error_rate.rs` | [`ErrorRate`]: the promise, and the slots that keep it |
//! | `attributes.rs` | [`Attributes`]: what the rows of items consist of |
//! | `window.rs` | [`Window`]: for how long items are found, and the epochs of that |
//! | `differences.rs` | [`Difference`]: a request beside a filter that exists |

mod attributes;
mod differences;
mod error_rate;
mod filter_params;
mod growth;
mod limits;
mod placement;
mod refusals;
mod request;
mod resolve;
mod window;

pub use attributes::{Attribute, Attributes, AttributesError, Codes, check_label};
pub use differences::Difference;
pub use error_rate::ErrorRate;
pub use filter_params::FilterParams;
pub use growth::GrowthBounds;
pub use limits::{
    DEFAULT_PROMISED_GROWTH, MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_BUCKET_SIZE,
    MAX_CAPACITY, MAX_CHAIN_LENGTH, MAX_EPOCHS, MAX_ERROR_RATE, MAX_EXPANSION, MAX_LABEL_BYTES,
    MAX_LABELS, MAX_PROMISED_GROWTH, MAX_VALUE_BITS, MAX_VALUES_PER_ITEM, MAX_WINDOW_SECONDS,
    MIN_ERROR_RATE, PAGE_BYTES, PROMISED_GROWTH_WITHOUT_CAPACITY, PROMISED_SUB_FILTERS,
};
pub use placement::{ClassicPlacement, LayoutKind, PagedPlacement, Placement};
pub use refusals::ParamsError;
pub use request::{Defaults, FilterRequest};
pub use window::{Epoch, Window};

#[cfg(test)]
mod tests;
