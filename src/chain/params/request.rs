//! What a user asks for, checked against every limit.

use super::attributes::Attributes;
use super::error_rate::{ErrorRate, code_of, smallest_rate};
use super::filter_params::FilterParams;
use super::limits::{
    DEFAULT_PROMISED_GROWTH, MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_EPOCHS, MAX_EXPANSION,
    MAX_PROMISED_GROWTH, MAX_VALUE_BITS, MAX_VALUES_PER_ITEM, MAX_WINDOW_SECONDS,
    MIN_VALUE_FINGERPRINT_BITS, PAGE_BYTES, PROMISED_GROWTH_WITHOUT_CAPACITY,
};
use super::placement::{LayoutKind, Placement};
use super::window::Window;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::rate;

/// The fields a user sent; absent means "as the server's defaults say".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterRequest {
    /// Items that must fit before the first expansion.
    pub capacity: Option<u64>,
    /// `classic`: RedisBloom's geometry for the capacity, which it takes for a
    /// number of slots, rounded up to a power of two of buckets. Items that fit
    /// are fewer then.
    pub capacity_in_slots: bool,
    /// Layout, when the user insists.
    pub layout: Option<LayoutKind>,
    /// `paged`: probability that an item which was never added is found,
    /// 2e-8 to 0.5, kept up to `promised_growth`.
    pub error_rate: Option<f64>,
    /// `paged`: how many times its capacity the filter may have and keep its
    /// false-positive rate, 1 to 16,777,216.
    pub promised_growth: Option<u64>,
    /// `paged`: bits of a slot, 12, 16, 21 or 32, instead of a false-positive
    /// rate.
    pub fingerprint_bits: Option<u64>,
    /// `paged`: bits of the values that items have, 1 to 16; without it they
    /// have none.
    pub value_bits: Option<u64>,
    /// `paged`: values that an item is expected to have, 1 to 1,024; 1 if
    /// nothing is said.
    pub values_per_item: Option<u64>,
    /// `paged`: what rows consist of, where the values of items are rows.
    pub attributes: Option<Attributes>,
    /// `paged`: seconds after which an item expires that was not seen again, 1 to
    /// [`MAX_WINDOW_SECONDS`]; without it none expires.
    pub window_seconds: Option<u64>,
    /// `paged`: in which steps items expire, from a 255th of the window to all of
    /// it; a 24th if nothing is said.
    pub window_resolution_seconds: Option<u64>,
    /// `classic`: slots per bucket, 1 to 255.
    pub bucket_size: Option<u64>,
    /// `classic`: longest kick-out path, 1 to 65535.
    pub max_iterations: Option<u64>,
    /// Growth factor of each further sub-filter, 0 to 32768; 0 = never grow.
    /// `paged` only tells 0 from the others.
    pub expansion: Option<u64>,
    /// Most sub-filters beyond the first, 0 to 65535; `paged`: most doublings.
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
    /// Most expansions of a filter that does not say; no more than
    /// `max_chain_length` leaves.
    pub max_expansions: u64,
    /// Most sub-filters of one filter, the first included.
    pub max_chain_length: u64,
    /// Most bytes that the slots of one filter may take, all sub-filters
    /// together; stored with each filter when it is created.
    pub max_filter_bytes: u64,
    /// Most bytes that the slots of all filters together may take when another
    /// is created; `None`: no bound.
    pub max_total_bytes: Option<u64>,
    /// Filters that there may be when another is created; `None`: no bound.
    pub max_filters: Option<u64>,
    /// Filters that one API key may have created; `None`: no bound.
    pub max_filters_per_key: Option<u64>,
    /// Bytes of the slots of all filters that one API key created; `None`: no
    /// bound.
    pub max_bytes_per_key: Option<u64>,
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
            max_chain_length: 64,
            max_filter_bytes: 16 << 30,
            max_total_bytes: None,
            max_filters: None,
            max_filters_per_key: None,
            max_bytes_per_key: None,
        }
    }
}

impl Defaults {
    /// Most sub-filters beyond the first that a filter may be created with.
    pub fn most_expansions(&self) -> u64 {
        let most = self.max_chain_length.saturating_sub(1);
        most.min(u64::from(u16::MAX))
    }
}

/// One field that was refused, in words for the sender of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {given}, allowed is {allowed}")]
pub struct ParamsError {
    /// Name of the field as users write it.
    pub field: &'static str,
    /// The given value.
    pub given: String,
    /// What is allowed, and what to do.
    pub allowed: String,
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
        let max_expansions = max_expansions(request, defaults, kind, &mut errors);
        let (placement, smallest) = match kind {
            LayoutKind::Classic => classic_placement(request, defaults, &mut errors),
            LayoutKind::Paged => (
                paged_placement(request, defaults, expansion, &mut errors),
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
        let capacity = match placement {
            Placement::Classic { bucket_size, .. } if request.capacity_in_slots => {
                let buckets = capacity / u64::from(bucket_size);
                classic::capacity_of(buckets.next_power_of_two(), bucket_size)
            }
            _ => capacity,
        };

        let params = FilterParams {
            capacity,
            placement,
            expansion: round_expansion(expansion),
            max_expansions: narrow(max_expansions),
            max_filter_bytes: defaults.max_filter_bytes,
            page_bytes: PAGE_BYTES,
            attributes: request.attributes.clone(),
        };
        let bytes = params.first_bytes();
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
}

/// Expansions after which the filter is full. With the layout `classic` each
/// item is asked of every sub-filter, so a server bounds how many there may be;
/// doublings of the layout `paged` make no question dearer.
fn max_expansions(
    request: &FilterRequest,
    defaults: &Defaults,
    kind: LayoutKind,
    errors: &mut Vec<ParamsError>,
) -> u64 {
    let most = match kind {
        LayoutKind::Classic => defaults.most_expansions(),
        LayoutKind::Paged => u64::from(u16::MAX),
    };
    let given = match request.max_expansions {
        Some(given) => given,
        // A default never refuses what was asked for.
        None => defaults.max_expansions.min(most),
    };
    if given > most {
        let allowed = match kind {
            LayoutKind::Classic => format!(
                "0 to {most}: a filter has up to {} sub-filters on this server (--max-chain-length); ask for fewer, or for a larger capacity or expansion",
                defaults.max_chain_length
            ),
            LayoutKind::Paged => format!("0 to {most}, as doublings of the capacity"),
        };
        errors.push(ParamsError {
            field: "max_expansions",
            given: given.to_string(),
            allowed,
        });
    }
    given
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
    let number = |field, given: Option<u64>| given.map(|given| (field, given.to_string()));
    let bits = number("fingerprint_bits", request.fingerprint_bits);
    let growth = number("promised_growth", request.promised_growth);
    let attributes = request.attributes.as_ref();
    let attributes = attributes.map(|it| ("attributes", it.names()));
    let of_paged = [
        error_rate,
        bits.clone(),
        growth,
        number("value_bits", request.value_bits),
        attributes,
        number("values_per_item", request.values_per_item),
        number("window_seconds", request.window_seconds),
        number(
            "window_resolution_seconds",
            request.window_resolution_seconds,
        ),
    ];
    let of_classic = [
        number("bucket_size", request.bucket_size),
        number("max_iterations", request.max_iterations),
    ];
    let first_of_paged = of_paged.iter().flatten().next();
    let (kind, because) = match (request.layout, first_of_paged) {
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
                    "no value {because}: it belongs to the layout classic, where the bucket size decides the error; leave it out and say the error_rate, or leave error_rate, promised_growth, fingerprint_bits and layout out"
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
            for given in of_paged.into_iter().flatten() {
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

/// The slots of a filter that splits pages, by their width or by what it
/// promises.
fn paged_placement(
    request: &FilterRequest,
    defaults: &Defaults,
    expansion: u64,
    errors: &mut Vec<ParamsError>,
) -> Placement {
    let growth = promised_growth(request, expansion, errors);
    let values = match window(request, errors) {
        Some(window) => Values {
            bits: window.epoch_bits(),
            per_item: 0,
            window: Some(window),
            are_rows: false,
        },
        None => values(request, errors),
    };
    if let Some(bits) = request.fingerprint_bits {
        return of_width(bits, request, growth, values, errors);
    }
    let least = smallest_rate(values.bits);
    let asked_for = match request.error_rate {
        Some(rate) => rate,
        // A default never refuses what was asked for.
        None => defaults.error_rate.max(least),
    };
    let error_rate = ErrorRate::new(asked_for);
    if error_rate.is_some() && asked_for < least && values.bits > 0 {
        errors.push(ParamsError {
            field: "error_rate",
            given: asked_for.to_string(),
            allowed: format!(
                "{least:.2e} to 0.5 {}, whose slots have {} bits left for the fingerprint; ask for a larger error_rate, or for {}",
                values.said(),
                32 - values.bits,
                values.remedy()
            ),
        });
    }
    if error_rate.is_none() {
        errors.push(ParamsError {
            field: "error_rate",
            given: asked_for.to_string(),
            allowed:
                "2e-8 to 0.5, the share of absent items that may be found; a typical one is 0.001"
                    .to_owned(),
        });
    }
    // A default never refuses what was asked for.
    let most = error_rate.map_or(growth, |rate| rate.largest_growth(values.bits).max(1));
    let promised_growth = match request.promised_growth {
        Some(_) => growth,
        None => growth.min(most),
    };
    if promised_growth > most {
        errors.push(ParamsError {
            field: "promised_growth",
            given: promised_growth.to_string(),
            allowed: format!(
                "1 to {most} with the error_rate {asked_for:?}, kept by slots of 32 bits; ask for a larger error_rate, or for a larger capacity and less growth"
            ),
        });
    }
    Placement::Paged {
        code: error_rate
            .and_then(|rate| rate.code(values.bits, promised_growth))
            .unwrap_or(SlotCode::of(SlotWidth::Bits32)),
        error_rate,
        promised_growth,
        values_per_item: values.per_item,
        window: values.window,
    }
}

/// Slots of a width that was asked for: what they keep up to the growth is
/// told, but not promised.
fn of_width(
    bits: u64,
    request: &FilterRequest,
    growth: u32,
    values: Values,
    errors: &mut Vec<ParamsError>,
) -> Placement {
    let width = SlotWidth::from_bits(bits);
    if width.is_none() {
        let or = match bits {
            8 => "; slots of 8 bits are those of the layout classic",
            _ => "",
        };
        errors.push(ParamsError {
            field: "fingerprint_bits",
            given: bits.to_string(),
            allowed: format!("12, 16, 21 or 32{or}"),
        });
    }
    let code = width.and_then(|width| code_of(width, values.bits));
    if width.is_some() && code.is_none() {
        let most = bits.saturating_sub(u64::from(MIN_VALUE_FINGERPRINT_BITS));
        let allowed = match most {
            _ if values.window.is_some() => format!(
                "a window of at most {} epochs with fingerprint_bits {bits}, of which {MIN_VALUE_FINGERPRINT_BITS} are left to the fingerprint; ask for a coarser window_resolution_seconds, or for more bits",
                (1u64 << most).saturating_sub(1)
            ),
            0 if values.are_rows => {
                format!("no attributes with fingerprint_bits {bits}; ask for more bits")
            }
            0 => format!("no value with fingerprint_bits {bits}; ask for more bits"),
            _ if values.are_rows => format!(
                "attributes of 1 to {most} bits with fingerprint_bits {bits}, of which {MIN_VALUE_FINGERPRINT_BITS} are left to the fingerprint; ask for more bits"
            ),
            _ => format!(
                "1 to {most} with fingerprint_bits {bits}, of which {MIN_VALUE_FINGERPRINT_BITS} are left to the fingerprint; ask for more bits"
            ),
        };
        let (field, given) = match values.window {
            Some(window) => (
                "window_resolution_seconds",
                format!("{} epochs", window.epochs()),
            ),
            None if values.are_rows => ("attributes", format!("{} bits a row", values.bits)),
            None => ("value_bits", values.bits.to_string()),
        };
        errors.push(ParamsError {
            field,
            given,
            allowed,
        });
    }
    let code = code.unwrap_or(SlotCode::of(SlotWidth::Bits16));
    let most = 1 << rate::most_promised(code);
    if request.promised_growth.is_some() && growth > most {
        errors.push(ParamsError {
            field: "promised_growth",
            given: growth.to_string(),
            allowed: format!("1 to {most} with fingerprint_bits {bits}; ask for more bits"),
        });
    }
    Placement::Paged {
        code,
        error_rate: None,
        promised_growth: growth.min(most),
        values_per_item: values.per_item,
        window: values.window,
    }
}

/// The values that items may have, or the epochs.
#[derive(Clone, Copy)]
struct Values {
    /// 0: none.
    bits: u8,
    per_item: u16,
    window: Option<Window>,
    /// Whether they are rows.
    are_rows: bool,
}

impl Values {
    fn said(&self) -> String {
        match self.window {
            Some(window) => format!("with a window of {} epochs", window.epochs()),
            None if self.are_rows => format!("with attributes of {} bits", self.bits),
            None => format!("with value_bits {}", self.bits),
        }
    }

    fn remedy(&self) -> &'static str {
        match self.window {
            Some(_) => "a coarser window_resolution_seconds",
            None if self.are_rows => "attributes of fewer bits",
            None => "fewer value_bits",
        }
    }
}

/// The window, if one was asked for.
fn window(request: &FilterRequest, errors: &mut Vec<ParamsError>) -> Option<Window> {
    let mut refuse = |field, given: String, allowed: String| {
        errors.push(ParamsError {
            field,
            given,
            allowed,
        });
    };
    let Some(seconds) = request.window_seconds else {
        if let Some(given) = request.window_resolution_seconds {
            let allowed = "no value without window_seconds; say how long items are to be found";
            refuse(
                "window_resolution_seconds",
                given.to_string(),
                allowed.to_owned(),
            );
        }
        return None;
    };
    let number = |given: Option<u64>| given.map(|given| given.to_string());
    let values = [
        ("value_bits", number(request.value_bits)),
        ("values_per_item", number(request.values_per_item)),
        (
            "attributes",
            request.attributes.as_ref().map(Attributes::names),
        ),
    ];
    for (field, given) in values {
        if let Some(given) = given {
            let allowed = "no value beside window_seconds: items of a window have none; leave one of them out";
            refuse(field, given, allowed.to_owned());
        }
    }
    if !(1..=MAX_WINDOW_SECONDS).contains(&seconds) {
        refuse(
            "window_seconds",
            seconds.to_string(),
            format!("1 to {MAX_WINDOW_SECONDS}"),
        );
        return None;
    }
    let usual = Window::usual_resolution(seconds);
    let resolution = request.window_resolution_seconds.unwrap_or(usual);
    let window = Window::new(seconds, resolution);
    if window.is_none() {
        let finest = Window::finest_resolution(seconds);
        let allowed = format!(
            "{finest} to {seconds} with window_seconds {seconds}, so that the window has from 1 to {MAX_EPOCHS} epochs"
        );
        refuse("window_resolution_seconds", resolution.to_string(), allowed);
    }
    window
}

fn values(request: &FilterRequest, errors: &mut Vec<ParamsError>) -> Values {
    let bits = match (&request.attributes, request.value_bits) {
        (Some(attributes), beside) => {
            if let Some(given) = beside {
                errors.push(ParamsError {
                    field: "value_bits",
                    given: given.to_string(),
                    allowed: "no value beside attributes, which decide it; leave one of them out"
                        .to_owned(),
                });
            }
            u64::from(attributes.bits())
        }
        (None, Some(bits)) => within("value_bits", bits, 1, MAX_VALUE_BITS, errors),
        (None, None) => {
            if let Some(given) = request.values_per_item {
                errors.push(ParamsError {
                    field: "values_per_item",
                    given: given.to_string(),
                    allowed: "no value without value_bits or attributes; say what an item has"
                        .to_owned(),
                });
            }
            return Values {
                bits: 0,
                per_item: 0,
                window: None,
                are_rows: false,
            };
        }
    };
    let per_item = request.values_per_item.unwrap_or(1);
    let most = MAX_VALUES_PER_ITEM;
    let per_item = within("values_per_item", per_item, 1, most, errors);
    Values {
        bits: narrow(bits.min(MAX_VALUE_BITS)),
        per_item: narrow(per_item),
        window: None,
        are_rows: request.attributes.is_some(),
    }
}

/// How many times its capacity the filter may have and keep its rate.
fn promised_growth(request: &FilterRequest, expansion: u64, errors: &mut Vec<ParamsError>) -> u32 {
    let most = match expansion {
        0 => 1,
        _ => MAX_PROMISED_GROWTH,
    };
    let default = match request.capacity {
        Some(_) => DEFAULT_PROMISED_GROWTH,
        None => PROMISED_GROWTH_WITHOUT_CAPACITY,
    };
    let given = match request.promised_growth {
        Some(given) => given,
        None => most.min(u64::from(default)),
    };
    if !(1..=most).contains(&given) {
        let allowed = match expansion {
            0 => "1 with expansion 0, which keeps the filter from growing".to_owned(),
            _ => format!("1 to {most}, as a multiple of the capacity"),
        };
        errors.push(ParamsError {
            field: "promised_growth",
            given: given.to_string(),
            allowed,
        });
    }
    narrow(given.clamp(1, most))
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
pub(super) fn round_expansion(expansion: u64) -> u32 {
    match expansion {
        0 => 0,
        factor => u32::try_from(factor.next_power_of_two()).unwrap_or(u32::MAX),
    }
}

/// Narrows a value whose range was checked before.
fn narrow<T: TryFrom<u64> + Default>(checked: u64) -> T {
    T::try_from(checked).unwrap_or_default()
}
