//! What a filter was asked to be. A [`FilterParams`] that exists is valid:
//! every limit is checked in [`FilterParams::resolve`], once, here.

use crate::cuckoo::classic;

/// Largest page, in bytes; a filter's metadata stores the size it was made with.
pub const PAGE_BYTES: u32 = 4096;

/// Largest capacity that may be asked for, in items.
pub const MAX_CAPACITY: u64 = 1 << 40;

/// Most slots a bucket may have.
pub const MAX_BUCKET_SIZE: u64 = 255;

/// Largest growth factor from one sub-filter to the next.
pub const MAX_EXPANSION: u64 = 32_768;

/// Which layout places the fingerprints of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Bit-compatible with RedisBloom and Apache Kvrocks.
    Classic,
}

impl LayoutKind {
    /// Its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            LayoutKind::Classic => "classic",
        }
    }
}

/// The fields a user sent; absent means "as the server's defaults say".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterRequest {
    /// Items that must fit before the first expansion.
    pub capacity: Option<u64>,
    /// Layout, when the user insists.
    pub layout: Option<LayoutKind>,
    /// Slots per bucket, 1 to 255.
    pub bucket_size: Option<u64>,
    /// Longest kick-out path, 1 to 65535.
    pub max_iterations: Option<u64>,
    /// Growth factor of each further sub-filter, 0 to 32768; 0 = never grow.
    pub expansion: Option<u64>,
    /// Most sub-filters beyond the first, 0 to 65535.
    pub max_expansions: Option<u64>,
}

/// What the server fills in, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Capacity of a filter created without one, in items.
    pub capacity: u64,
    /// Slots per bucket.
    pub bucket_size: u64,
    /// Longest kick-out path.
    pub max_iterations: u64,
    /// Growth factor.
    pub expansion: u64,
    /// Most expansions.
    pub max_expansions: u64,
    /// Most bytes that the slots of one filter may take, all sub-filters
    /// together; stored with each filter when it is created.
    pub max_filter_bytes: u64,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            capacity: 1024,
            bucket_size: 2,
            max_iterations: 20,
            expansion: 1,
            max_expansions: 32,
            max_filter_bytes: 16 << 30,
        }
    }
}

/// The parameters of one filter; valid by construction and stored with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterParams {
    capacity: u64,
    layout: LayoutKind,
    bucket_size: u8,
    max_iterations: u16,
    expansion: u32,
    max_expansions: u16,
    max_filter_bytes: u64,
    page_bytes: u32,
}

/// One field that was refused. The words are for the person who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {given}, allowed is {allowed}")]
pub struct ParamsError {
    /// Name of the field as users write it.
    pub field: &'static str,
    /// What was given.
    pub given: String,
    /// What is allowed, and what to do.
    pub allowed: String,
}

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
    /// Fills in the defaults and checks every limit.
    ///
    /// # Errors
    /// All refused fields at once.
    pub fn resolve(
        request: &FilterRequest,
        defaults: &Defaults,
    ) -> Result<FilterParams, Vec<ParamsError>> {
        let mut errors = Vec::new();
        let bucket_size = within(
            "bucket_size",
            request.bucket_size.unwrap_or(defaults.bucket_size),
            1,
            MAX_BUCKET_SIZE,
            &mut errors,
        );
        let max_iterations = within(
            "max_iterations",
            request.max_iterations.unwrap_or(defaults.max_iterations),
            1,
            u64::from(u16::MAX),
            &mut errors,
        );
        let expansion = within(
            "expansion",
            request.expansion.unwrap_or(defaults.expansion),
            0,
            MAX_EXPANSION,
            &mut errors,
        );
        let max_expansions = within(
            "max_expansions",
            request.max_expansions.unwrap_or(defaults.max_expansions),
            0,
            u64::from(u16::MAX),
            &mut errors,
        );
        let smallest = 2 * bucket_size;
        let capacity = match request.capacity {
            Some(capacity) => capacity,
            // A default never refuses what was asked for.
            None => defaults.capacity.max(smallest),
        };
        let capacity = within("capacity", capacity, smallest, MAX_CAPACITY, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }

        let params = FilterParams {
            capacity,
            layout: request.layout.unwrap_or(LayoutKind::Classic),
            bucket_size: narrow(bucket_size),
            max_iterations: narrow(max_iterations),
            expansion: round_expansion(expansion),
            max_expansions: narrow(max_expansions),
            max_filter_bytes: defaults.max_filter_bytes,
            page_bytes: PAGE_BYTES,
        };
        let bytes = params.first_sub_filter_bytes();
        if bytes > params.max_filter_bytes {
            return Err(vec![ParamsError {
                field: "capacity",
                given: format!("{capacity}, which needs {bytes} bytes"),
                allowed: format!(
                    "what fits in {} bytes a filter; ask for less, or start the server with a larger --max-filter-bytes",
                    params.max_filter_bytes
                ),
            }]);
        }
        Ok(params)
    }

    /// Says where a request names a value that this filter does not have;
    /// fields that the request leaves out agree with anything.
    pub fn differences(&self, request: &FilterRequest) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |field, requested: Option<u64>, existing: u64| {
            if let Some(requested) = requested.filter(|&requested| requested != existing) {
                differences.push(Difference {
                    field,
                    requested: requested.to_string(),
                    existing: existing.to_string(),
                });
            }
        };
        compare("capacity", request.capacity, self.capacity);
        compare(
            "bucket_size",
            request.bucket_size,
            u64::from(self.bucket_size),
        );
        compare(
            "max_iterations",
            request.max_iterations,
            u64::from(self.max_iterations),
        );
        compare(
            "expansion",
            request
                .expansion
                .map(|factor| u64::from(round_expansion(factor))),
            u64::from(self.expansion),
        );
        compare(
            "max_expansions",
            request.max_expansions,
            u64::from(self.max_expansions),
        );
        if let Some(layout) = request.layout.filter(|&layout| layout != self.layout) {
            differences.push(Difference {
                field: "layout",
                requested: layout.name().to_owned(),
                existing: self.layout.name().to_owned(),
            });
        }
        differences
    }

    /// Items that fit before the first expansion.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Which layout places the fingerprints.
    pub fn layout(&self) -> LayoutKind {
        self.layout
    }

    /// Slots per bucket.
    pub fn bucket_size(&self) -> u8 {
        self.bucket_size
    }

    /// Longest kick-out path.
    pub fn max_iterations(&self) -> u16 {
        self.max_iterations
    }

    /// Growth factor of each further sub-filter, a power of two; 0 = never grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// Most sub-filters beyond the first.
    pub fn max_expansions(&self) -> u16 {
        self.max_expansions
    }

    /// Most bytes that the slots of all sub-filters together may take.
    pub fn max_filter_bytes(&self) -> u64 {
        self.max_filter_bytes
    }

    /// Upper bound of a page's size, in bytes.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Buckets of the first sub-filter, a power of two.
    pub fn first_buckets(&self) -> u64 {
        classic::buckets_for(self.capacity, self.bucket_size)
    }

    /// Bytes that the slots of the first sub-filter take.
    pub fn first_sub_filter_bytes(&self) -> u64 {
        // At most 2^41 buckets of 255 bytes: no overflow.
        self.first_buckets() * u64::from(self.bucket_size)
    }

    /// The same with another bound.
    pub(super) fn with_max_filter_bytes(self, max_filter_bytes: u64) -> FilterParams {
        FilterParams {
            max_filter_bytes,
            ..self
        }
    }

    /// Puts stored parameters together again; `None` if they break a limit,
    /// which only corrupt bytes do.
    pub(super) fn from_stored(stored: StoredParams) -> Option<FilterParams> {
        let smallest = 2 * u64::from(stored.bucket_size);
        let valid = stored.bucket_size >= 1
            && (smallest..=MAX_CAPACITY).contains(&stored.capacity)
            && stored.max_iterations >= 1
            && u64::from(stored.expansion) <= MAX_EXPANSION
            && (stored.expansion == 0 || stored.expansion.is_power_of_two())
            && stored.page_bytes == PAGE_BYTES;
        valid.then_some(FilterParams {
            capacity: stored.capacity,
            layout: stored.layout,
            bucket_size: stored.bucket_size,
            max_iterations: stored.max_iterations,
            expansion: stored.expansion,
            max_expansions: stored.max_expansions,
            max_filter_bytes: stored.max_filter_bytes,
            page_bytes: stored.page_bytes,
        })
    }
}

/// Parameters as they were read, not checked yet.
pub(super) struct StoredParams {
    pub(super) capacity: u64,
    pub(super) layout: LayoutKind,
    pub(super) bucket_size: u8,
    pub(super) page_bytes: u32,
    pub(super) max_iterations: u16,
    pub(super) expansion: u32,
    pub(super) max_expansions: u16,
    pub(super) max_filter_bytes: u64,
}

/// Checks `low..=high` and hands the value on, so that all fields are checked
/// before anything is refused.
fn within(
    field: &'static str,
    given: u64,
    low: u64,
    high: u64,
    errors: &mut Vec<ParamsError>,
) -> u64 {
    if !(low..=high).contains(&given) {
        errors.push(ParamsError {
            field,
            given: given.to_string(),
            allowed: format!("{low} to {high}"),
        });
    }
    given
}

/// RedisBloom rounds the growth factor up to a power of two; 0 stays 0.
fn round_expansion(expansion: u64) -> u32 {
    match expansion {
        0 => 0,
        factor => u32::try_from(factor.next_power_of_two()).unwrap_or(u32::MAX),
    }
}

/// Narrows a value whose range was checked before.
fn narrow<T: TryFrom<u64> + Default>(checked: u64) -> T {
    T::try_from(checked).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(request: FilterRequest) -> Result<FilterParams, Vec<ParamsError>> {
        FilterParams::resolve(&request, &Defaults::default())
    }

    #[test]
    fn every_limit_is_named_with_what_was_given_and_what_is_allowed() {
        let errors = resolve(FilterRequest {
            capacity: Some(1),
            bucket_size: Some(0),
            max_iterations: Some(65_536),
            expansion: Some(32_769),
            max_expansions: Some(65_536),
            layout: None,
        })
        .unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field).collect();
        assert_eq!(
            fields,
            [
                "bucket_size",
                "max_iterations",
                "expansion",
                "max_expansions"
            ]
        );
        assert_eq!(
            errors[0].to_string(),
            "bucket_size is 0, allowed is 1 to 255"
        );

        let errors = resolve(FilterRequest {
            capacity: Some(3),
            ..Default::default()
        });
        assert_eq!(
            errors.unwrap_err()[0].to_string(),
            "capacity is 3, allowed is 4 to 1099511627776"
        );
    }

    #[test]
    fn bytes_are_checked_before_anything_is_allocated() {
        let error = resolve(FilterRequest {
            capacity: Some(MAX_CAPACITY),
            ..Default::default()
        });
        let error = error.unwrap_err().remove(0);
        assert_eq!(error.field, "capacity");
        assert!(
            error.given.contains("2199023255552 bytes"),
            "{}",
            error.given
        );
        assert!(error.allowed.contains("--max-filter-bytes"));
    }

    #[test]
    fn a_default_capacity_never_refuses_a_large_bucket() {
        let params = resolve(FilterRequest {
            bucket_size: Some(255),
            ..Default::default()
        });
        assert_eq!(params.unwrap().capacity(), 1024);
        let defaults = Defaults {
            capacity: 100,
            ..Defaults::default()
        };
        let request = FilterRequest {
            bucket_size: Some(255),
            ..Default::default()
        };
        assert_eq!(
            FilterParams::resolve(&request, &defaults)
                .unwrap()
                .capacity(),
            510
        );
    }

    #[test]
    fn expansion_is_rounded_up_to_a_power_of_two_and_compared_so() {
        let params = resolve(FilterRequest {
            expansion: Some(3),
            ..Default::default()
        })
        .unwrap();
        assert_eq!(params.expansion(), 4);
        for same in [3, 4] {
            let request = FilterRequest {
                expansion: Some(same),
                ..Default::default()
            };
            assert_eq!(params.differences(&request), []);
        }
        let request = FilterRequest {
            expansion: Some(2),
            capacity: Some(1024),
            ..Default::default()
        };
        let differences = params.differences(&request);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].field, "expansion");
        assert_eq!(differences[0].existing, "4");
    }
}
