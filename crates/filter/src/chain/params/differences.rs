//! Where a request disagrees with a filter that exists.

use super::filter_params::FilterParams;
use super::placement::LayoutKind;
use super::request::{FilterRequest, round_expansion};
use super::window::Window;

/// A field in which a request and an existing filter disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the field as users write it.
    pub field: &'static str,
    /// What was asked for.
    pub requested: String,
    /// What the filter has.
    pub existing: String,
}

impl FilterParams {
    /// Says where a request names a value that this filter does not have;
    /// fields that the request leaves out agree with anything.
    pub fn differences(&self, request: &FilterRequest) -> Vec<Difference> {
        let window = self.window();
        let expansion = request.expansion.map(round_expansion);
        // What only the other layout has agrees with nothing here.
        let bits = self.slot_code().map(|code| code.width().bits());
        let bucket_size = self.classic().map(|it| it.bucket_size);
        let layout = request.layout.map(LayoutKind::name);
        let seconds = window.map(Window::seconds);
        let resolution = window.map(Window::resolution_seconds);
        let differences = [
            differ("capacity", request.capacity, Some(self.capacity)),
            differ("layout", layout, Some(self.layout().name())),
            differ("error_rate", request.error_rate, self.error_rate()),
            differ("fingerprint_bits", request.fingerprint_bits, bits),
            differ(
                "promised_growth",
                request.promised_growth,
                self.promised_growth(),
            ),
            differ("value_bits", request.value_bits, self.plain_value_bits()),
            differ("attributes", request.attributes.as_ref(), self.attributes()),
            differ(
                "values_per_item",
                request.values_per_item,
                self.values_per_item(),
            ),
            differ("window_seconds", request.window_seconds, seconds),
            differ(
                "window_resolution_seconds",
                request.window_resolution_seconds,
                resolution,
            ),
            differ("bucket_size", request.bucket_size, bucket_size),
            differ(
                "max_iterations",
                request.max_iterations,
                self.max_iterations(),
            ),
            differ("expansion", expansion, Some(self.expansion)),
            differ(
                "max_expansions",
                request.max_expansions,
                Some(self.max_expansions),
            ),
        ];
        differences.into_iter().flatten().collect()
    }
}

fn differ<T: PartialEq + ToString>(
    field: &'static str,
    requested: Option<T>,
    existing: Option<impl Into<T>>,
) -> Option<Difference> {
    let existing: Option<T> = existing.map(Into::into);
    let requested = requested.filter(|requested| existing.as_ref() != Some(requested))?;
    Some(Difference {
        field,
        requested: requested.to_string(),
        existing: existing.map_or_else(|| "not set".to_owned(), |it| it.to_string()),
    })
}
