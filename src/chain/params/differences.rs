//! Where a request disagrees with a filter that exists.

use super::filter_params::FilterParams;
use super::placement::LayoutKind;
use super::request::{FilterRequest, round_expansion};

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
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        // A field that only the other layout has agrees with nothing here.
        let of = |kind, number| (self.layout() == kind).then_some(number);
        let layout = |kind: LayoutKind| Some(kind.name().to_owned());
        let rate = |rate: Option<f64>| rate.map(|rate| rate.to_string());
        let width = u64::from(self.slot_width().bits());
        let bucket_size = u64::from(self.bucket_size());
        let expansion = request.expansion.map(round_expansion).map(u64::from);
        let fields = [
            (
                "capacity",
                text(request.capacity),
                text(Some(self.capacity)),
            ),
            (
                "layout",
                request.layout.and_then(layout),
                layout(self.layout()),
            ),
            (
                "error_rate",
                rate(request.error_rate),
                rate(self.error_rate()),
            ),
            (
                "fingerprint_bits",
                text(request.fingerprint_bits),
                text(of(LayoutKind::Paged, width)),
            ),
            (
                "promised_growth",
                text(request.promised_growth),
                text(self.promised_growth().map(u64::from)),
            ),
            (
                "value_bits",
                text(request.value_bits),
                text(self.plain_value_bits().map(u64::from)),
            ),
            (
                "attributes",
                request.attributes.as_ref().map(ToString::to_string),
                self.attributes().map(ToString::to_string),
            ),
            (
                "values_per_item",
                text(request.values_per_item),
                text(self.values_per_item().map(u64::from)),
            ),
            (
                "window_seconds",
                text(request.window_seconds),
                text(self.window().map(|it| it.seconds().into())),
            ),
            (
                "window_resolution_seconds",
                text(request.window_resolution_seconds),
                text(self.window().map(|it| it.resolution_seconds().into())),
            ),
            (
                "bucket_size",
                text(request.bucket_size),
                text(of(LayoutKind::Classic, bucket_size)),
            ),
            (
                "max_iterations",
                text(request.max_iterations),
                text(self.max_iterations().map(u64::from)),
            ),
            (
                "expansion",
                text(expansion),
                text(Some(u64::from(self.expansion))),
            ),
            (
                "max_expansions",
                text(request.max_expansions),
                text(Some(u64::from(self.max_expansions))),
            ),
        ];
        let differ = fields
            .into_iter()
            .filter_map(|(field, requested, existing)| {
                let requested = requested?;
                // Attributes are said in few words.
                let is_other = match field {
                    "attributes" => request.attributes.as_ref() != self.attributes(),
                    _ => existing.as_ref() != Some(&requested),
                };
                is_other.then(|| Difference {
                    field,
                    requested,
                    existing: existing.unwrap_or_else(|| "not set".to_owned()),
                })
            });
        differ.collect()
    }
}
