//! What a filter was asked to be. A [`FilterParams`] that exists is valid:
//! every limit is checked in [`FilterParams::resolve`], once, here.

use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic::{self, Classic};
use crate::cuckoo::layout::Layout;
use crate::cuckoo::paged::{self, Paged};

/// Largest page, in bytes; a filter's metadata stores the size it was made with.
pub const PAGE_BYTES: u32 = paged::PAGE_BYTES;

/// Largest capacity that may be asked for, in items.
pub const MAX_CAPACITY: u64 = 1 << 40;

/// Most slots a bucket may have.
pub const MAX_BUCKET_SIZE: u64 = 255;

/// Largest growth factor from one sub-filter to the next.
pub const MAX_EXPANSION: u64 = 32_768;

/// Smallest error rate that may be asked for: what slots of 32 bits keep.
pub const MIN_ERROR_RATE: f64 = 2e-8;

/// Largest error rate that may be asked for.
pub const MAX_ERROR_RATE: f64 = 0.5;

/// Sub-filters up to which an error rate is promised. Where each is twice as
/// large as the one before, that is 255 times the capacity.
pub const PROMISED_SUB_FILTERS: u32 = 8;

/// The load of full sub-filters that a promise reckons with.
const PROMISED_LOAD: f64 = 0.95;

/// Which layout places the fingerprints of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Bit-compatible with RedisBloom and Apache Kvrocks.
    Classic,
    /// Made for pages, with an error rate that holds while the filter grows.
    Paged,
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [LayoutKind; 2] = [LayoutKind::Paged, LayoutKind::Classic];

    /// Its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            LayoutKind::Classic => "classic",
            LayoutKind::Paged => "paged",
        }
    }
}

/// The fields a user sent; absent means "as the server's defaults say".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterRequest {
    /// Items that must fit before the first expansion.
    pub capacity: Option<u64>,
    /// Layout, when the user insists.
    pub layout: Option<LayoutKind>,
    /// `paged`: probability that an item which was never added is found,
    /// 2e-8 to 0.5, kept up to [`PROMISED_SUB_FILTERS`].
    pub error_rate: Option<f64>,
    /// `paged`: bits of a slot, 8, 16 or 32, instead of an error rate.
    pub fingerprint_bits: Option<u64>,
    /// `classic`: slots per bucket, 1 to 255.
    pub bucket_size: Option<u64>,
    /// `classic`: longest kick-out path, 1 to 65535.
    pub max_iterations: Option<u64>,
    /// Growth factor of each further sub-filter, 0 to 32768; 0 = never grow.
    pub expansion: Option<u64>,
    /// Most sub-filters beyond the first, 0 to 65535.
    pub max_expansions: Option<u64>,
}

/// What the server fills in, and what it allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Capacity of a filter created without one, in items.
    pub capacity: u64,
    /// Layout of a filter whose fields don't tell.
    pub layout: LayoutKind,
    /// Error rate of a `paged` filter.
    pub error_rate: f64,
    /// Slots per bucket of a `classic` filter.
    pub bucket_size: u64,
    /// Longest kick-out path of a `classic` filter.
    pub max_iterations: u64,
    /// Growth factor; `None`: 2 for `paged`, 1 for `classic`.
    pub expansion: Option<u64>,
    /// Most expansions.
    pub max_expansions: u64,
    /// Most bytes that the slots of one filter may take, all sub-filters
    /// together; stored with each filter when it is created.
    pub max_filter_bytes: u64,
    /// Most bytes that the slots of all filters together may take when another
    /// is created; `None`: no bound.
    pub max_total_bytes: Option<u64>,
    /// Filters that there may be when another is created; `None`: no bound.
    pub max_filters: Option<u64>,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            capacity: 1024,
            layout: LayoutKind::Paged,
            error_rate: 0.001,
            bucket_size: 2,
            max_iterations: 20,
            expansion: None,
            max_expansions: 32,
            max_filter_bytes: 16 << 30,
            max_total_bytes: None,
            max_filters: None,
        }
    }
}

/// The parameters of one filter; valid by construction and stored with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterParams {
    capacity: u64,
    placement: Placement,
    expansion: u32,
    max_expansions: u16,
    max_filter_bytes: u64,
    page_bytes: u32,
}

/// How the fingerprints are placed, by layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// See [`Classic`].
    Classic {
        /// Slots per bucket.
        bucket_size: u8,
        /// Longest kick-out path.
        max_iterations: u16,
    },
    /// See [`Paged`].
    Paged {
        /// Bits of a slot.
        width: SlotWidth,
        /// The promise, unless the width was asked for.
        error_rate: Option<ErrorRate>,
    },
}

/// A promised error rate, from [`MIN_ERROR_RATE`] to [`MAX_ERROR_RATE`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ErrorRate(f64);

/// It is a number.
impl Eq for ErrorRate {}

impl ErrorRate {
    /// The rate, if it is within the range.
    pub fn new(rate: f64) -> Option<ErrorRate> {
        (MIN_ERROR_RATE..=MAX_ERROR_RATE)
            .contains(&rate)
            .then_some(ErrorRate(rate))
    }

    /// The rate.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The narrowest slots that keep it over so many sub-filters. The widest
    /// keep the smallest rate there is.
    fn width(self, sub_filters: u32) -> SlotWidth {
        let met = f64::from(sub_filters) * f64::from(2 * paged::BUCKET_SIZE) * PROMISED_LOAD;
        SlotWidth::ALL
            .into_iter()
            .find(|width| met / 2f64.powi(i32::from(width.bits())) <= self.0)
            .unwrap_or(SlotWidth::Bits32)
    }

    /// The load up to which so many sub-filters of that width keep it, at most
    /// 1: the compound of `n` rates `r` is `1 - (1 - r)^n`.
    fn load_limit(self, width: SlotWidth, sub_filters: u32) -> f64 {
        let rate_of_one = -f64::exp_m1(f64::ln_1p(-self.0) / f64::from(sub_filters));
        let slot_missed = f64::ln_1p(-1.0 / f64::from(width.fingerprints()));
        let slots_met = f64::ln_1p(-rate_of_one) / slot_missed;
        (slots_met / f64::from(2 * paged::BUCKET_SIZE)).min(1.0)
    }
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
        let kind = choose_layout(request, defaults, &mut errors);
        let expansion = within(
            "expansion",
            request
                .expansion
                .or(defaults.expansion)
                .unwrap_or(match kind {
                    LayoutKind::Classic => 1,
                    LayoutKind::Paged => 2,
                }),
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
        let (placement, smallest) = match kind {
            LayoutKind::Classic => classic_placement(request, defaults, &mut errors),
            LayoutKind::Paged => (
                paged_placement(request, defaults, sub_filters(expansion), &mut errors),
                1,
            ),
        };
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
            placement,
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
        let mut compare = |field, requested: Option<String>, existing: Option<String>| {
            if let Some(requested) = requested
                && existing.as_ref() != Some(&requested)
            {
                differences.push(Difference {
                    field,
                    requested,
                    existing: existing.unwrap_or_else(|| "not set".to_owned()),
                });
            }
        };
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        // A field that only the other layout has agrees with nothing here.
        let of = |kind, number| (self.layout() == kind).then_some(number);
        let layout = |kind: LayoutKind| Some(kind.name().to_owned());
        let rate = |rate: Option<f64>| rate.map(|rate| rate.to_string());
        let expansion = request.expansion.map(round_expansion).map(u64::from);
        compare(
            "capacity",
            text(request.capacity),
            text(Some(self.capacity)),
        );
        compare(
            "layout",
            request.layout.and_then(layout),
            layout(self.layout()),
        );
        compare(
            "error_rate",
            rate(request.error_rate),
            rate(self.error_rate()),
        );
        compare(
            "fingerprint_bits",
            text(request.fingerprint_bits),
            text(of(LayoutKind::Paged, u64::from(self.slot_width().bits()))),
        );
        compare(
            "bucket_size",
            text(request.bucket_size),
            text(of(LayoutKind::Classic, u64::from(self.bucket_size()))),
        );
        compare(
            "max_iterations",
            text(request.max_iterations),
            text(self.max_iterations().map(u64::from)),
        );
        compare(
            "expansion",
            text(expansion),
            text(Some(u64::from(self.expansion))),
        );
        compare(
            "max_expansions",
            text(request.max_expansions),
            text(Some(u64::from(self.max_expansions))),
        );
        differences
    }

    /// Items that fit before the first expansion.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Which layout places the fingerprints.
    pub fn layout(&self) -> LayoutKind {
        match self.placement {
            Placement::Classic { .. } => LayoutKind::Classic,
            Placement::Paged { .. } => LayoutKind::Paged,
        }
    }

    /// Slots per bucket.
    pub fn bucket_size(&self) -> u8 {
        match self.placement {
            Placement::Classic { bucket_size, .. } => bucket_size,
            Placement::Paged { .. } => paged::BUCKET_SIZE,
        }
    }

    /// Bits of a slot.
    pub fn slot_width(&self) -> SlotWidth {
        match self.placement {
            Placement::Classic { .. } => SlotWidth::Bits8,
            Placement::Paged { width, .. } => width,
        }
    }

    /// The promised error rate, where there is a promise.
    pub fn error_rate(&self) -> Option<f64> {
        match self.placement {
            Placement::Classic { .. } => None,
            Placement::Paged { error_rate, .. } => error_rate.map(ErrorRate::get),
        }
    }

    /// Longest kick-out path, where one may be asked for.
    pub fn max_iterations(&self) -> Option<u16> {
        match self.placement {
            Placement::Classic { max_iterations, .. } => Some(max_iterations),
            Placement::Paged { .. } => None,
        }
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

    /// Geometry of the sub-filter at a position: `expansion^position` times
    /// the first one's buckets. `None` if that is beyond what can be addressed.
    pub fn layout_at(&self, position: usize) -> Option<Layout> {
        let growth = match (position, self.expansion) {
            (0, _) | (_, 0 | 1) => 0,
            (_, factor) => factor.ilog2().checked_mul(u32::try_from(position).ok()?)?,
        };
        match self.placement {
            Placement::Classic { bucket_size, .. } => {
                let buckets = classic::buckets_for(self.capacity, bucket_size)
                    .checked_mul(1u64.checked_shl(growth)?)?;
                buckets.checked_mul(u64::from(bucket_size))?;
                Classic::new(buckets, bucket_size, self.page_bytes).map(Layout::Classic)
            }
            Placement::Paged { width, .. } => {
                Paged::new(paged::pages_for(self.capacity, width), growth, width).map(Layout::Paged)
            }
        }
    }

    /// Bytes that the slots of the first sub-filter take.
    pub fn first_sub_filter_bytes(&self) -> u64 {
        // At most 2^41 buckets of 255 bytes, or 2^31 pages: no overflow.
        match self.placement {
            Placement::Classic { bucket_size, .. } => {
                classic::buckets_for(self.capacity, bucket_size) * u64::from(bucket_size)
            }
            Placement::Paged { width, .. } => {
                paged::pages_for(self.capacity, width) * u64::from(self.page_bytes)
            }
        }
    }

    /// Share of a sub-filter's slots that may be used: as many as keep the
    /// promise, 0 to 1.
    pub fn load_limit(&self) -> f64 {
        match self.placement {
            Placement::Paged {
                width,
                error_rate: Some(rate),
            } => rate.load_limit(width, sub_filters(u64::from(self.expansion))),
            _ => 1.0,
        }
    }

    /// Sub-filters up to which an error rate is promised.
    pub fn promised_sub_filters(&self) -> u32 {
        sub_filters(u64::from(self.expansion))
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
        let smallest = match stored.placement {
            Placement::Classic {
                bucket_size,
                max_iterations,
            } if bucket_size >= 1 && max_iterations >= 1 => 2 * u64::from(bucket_size),
            Placement::Classic { .. } => return None,
            // Another width would not keep the rate, or be wasted on it.
            Placement::Paged {
                width,
                error_rate: Some(rate),
            } if width != rate.width(sub_filters(u64::from(stored.expansion))) => return None,
            Placement::Paged { .. } => 1,
        };
        let valid = (smallest..=MAX_CAPACITY).contains(&stored.capacity)
            && u64::from(stored.expansion) <= MAX_EXPANSION
            && (stored.expansion == 0 || stored.expansion.is_power_of_two())
            && stored.page_bytes == PAGE_BYTES;
        valid.then_some(FilterParams {
            capacity: stored.capacity,
            placement: stored.placement,
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
    pub(super) placement: Placement,
    pub(super) page_bytes: u32,
    pub(super) expansion: u32,
    pub(super) max_expansions: u16,
    pub(super) max_filter_bytes: u64,
}

/// An explicit layout settles it; else the fields that only one layout has;
/// else the server's default. Refuses fields of the other layout.
fn choose_layout(
    request: &FilterRequest,
    defaults: &Defaults,
    errors: &mut Vec<ParamsError>,
) -> LayoutKind {
    let error_rate = request
        .error_rate
        .map(|rate| ("error_rate", rate.to_string()));
    let bits = request.fingerprint_bits;
    let bits = bits.map(|bits| ("fingerprint_bits", bits.to_string()));
    let bucket_size = request.bucket_size;
    let bucket_size = bucket_size.map(|slots| ("bucket_size", slots.to_string()));
    let iterations = request.max_iterations;
    let iterations = iterations.map(|most| ("max_iterations", most.to_string()));
    let of_paged = error_rate.or(bits.clone());
    let of_classic = [bucket_size, iterations];
    let (kind, because) = match (request.layout, &of_paged) {
        (Some(kind), _) => (kind, format!("with the layout {}", kind.name())),
        (None, Some((field, _))) => (LayoutKind::Paged, format!("beside {field}")),
        (None, None) if of_classic.iter().any(Option::is_some) => {
            (LayoutKind::Classic, String::new())
        }
        (None, None) => (defaults.layout, String::new()),
    };
    let mut refuse = |(field, given): (&'static str, String), allowed: String| {
        errors.push(ParamsError {
            field,
            given,
            allowed,
        });
    };
    match kind {
        LayoutKind::Paged => {
            for given in of_classic.into_iter().flatten() {
                let allowed = format!(
                    "no value {because}: it belongs to the layout classic, where the bucket size decides the error; leave it out, or leave error_rate, fingerprint_bits and layout out"
                );
                refuse(given, allowed);
            }
            if request.error_rate.is_some()
                && let Some(bits) = bits
            {
                let allowed = "no value beside error_rate, which decides it; leave one of them out";
                refuse(bits, allowed.to_owned());
            }
        }
        LayoutKind::Classic => {
            if let Some(given) = of_paged {
                let allowed = format!(
                    "no value {because}, whose error follows from bucket_size; leave it out, or ask for the layout paged"
                );
                refuse(given, allowed);
            }
        }
    }
    kind
}

/// The placement of a classic filter, and its smallest capacity.
fn classic_placement(
    request: &FilterRequest,
    defaults: &Defaults,
    errors: &mut Vec<ParamsError>,
) -> (Placement, u64) {
    let bucket_size = within(
        "bucket_size",
        request.bucket_size.unwrap_or(defaults.bucket_size),
        1,
        MAX_BUCKET_SIZE,
        errors,
    );
    let max_iterations = within(
        "max_iterations",
        request.max_iterations.unwrap_or(defaults.max_iterations),
        1,
        u64::from(u16::MAX),
        errors,
    );
    let placement = Placement::Classic {
        bucket_size: narrow(bucket_size),
        max_iterations: narrow(max_iterations),
    };
    (placement, bucket_size.saturating_mul(2))
}

fn paged_placement(
    request: &FilterRequest,
    defaults: &Defaults,
    sub_filters: u32,
    errors: &mut Vec<ParamsError>,
) -> Placement {
    if let Some(bits) = request.fingerprint_bits {
        let width = SlotWidth::from_bits(bits);
        if width.is_none() {
            errors.push(ParamsError {
                field: "fingerprint_bits",
                given: bits.to_string(),
                allowed: "8, 16 or 32".to_owned(),
            });
        }
        return Placement::Paged {
            width: width.unwrap_or(SlotWidth::Bits16),
            error_rate: None,
        };
    }
    let asked_for = request.error_rate.unwrap_or(defaults.error_rate);
    let error_rate = ErrorRate::new(asked_for);
    if error_rate.is_none() {
        errors.push(ParamsError {
            field: "error_rate",
            given: asked_for.to_string(),
            allowed:
                "2e-8 to 0.5, the share of absent items that may be found; a typical one is 0.001"
                    .to_owned(),
        });
    }
    Placement::Paged {
        width: error_rate.map_or(SlotWidth::Bits16, |rate| rate.width(sub_filters)),
        error_rate,
    }
}

/// Sub-filters that a promise must hold for.
fn sub_filters(expansion: u64) -> u32 {
    match expansion {
        0 => 1,
        _ => PROMISED_SUB_FILTERS,
    }
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
mod tests;
