//! From a request to the parameters of a filter: fills in the defaults, and checks
//! every limit.

mod slots;
mod values;

use super::filter_params::FilterParams;
use super::limits::{MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_EXPANSION};
use super::placement::{ClassicPlacement, LayoutKind, Placement};
use super::refusals::{ParamsError, Refusals, narrow};
use super::request::{Defaults, FilterRequest, round_expansion};
use crate::cuckoo::classic;
use slots::paged_placement;

impl FilterParams {
    /// Fills in the defaults and checks every limit.
    ///
    /// # Errors
    /// All refused fields at once.
    pub fn resolve(
        request: &FilterRequest,
        defaults: &Defaults,
    ) -> Result<FilterParams, Vec<ParamsError>> {
        let mut refusals = Refusals::default();
        let kind = choose_layout(request, defaults, &mut refusals);
        let expansion = request.expansion.or(defaults.expansion);
        let expansion = expansion.unwrap_or(match kind {
            LayoutKind::Classic => 1,
            LayoutKind::Paged => 2,
        });
        let expansion = refusals.within("expansion", expansion, 0..=MAX_EXPANSION);
        let max_expansions = max_expansions(request, defaults, kind, &mut refusals);
        let (placement, smallest) = match kind {
            LayoutKind::Classic => {
                let (placement, smallest) = classic_placement(request, defaults, &mut refusals);
                (Placement::Classic(placement), smallest)
            }
            LayoutKind::Paged => {
                let placement = paged_placement(request, defaults, expansion, &mut refusals);
                (Placement::Paged(placement), 1)
            }
        };
        let capacity = match request.capacity {
            Some(capacity) => capacity,
            // A default never refuses what was asked for.
            None => defaults.capacity.max(smallest),
        };
        let capacity = refusals.within("capacity", capacity, smallest..=MAX_CAPACITY);
        refusals.none()?;
        let capacity = match placement {
            Placement::Classic(it) if request.capacity_in_slots => {
                let buckets = capacity / u64::from(it.bucket_size);
                classic::capacity_of(buckets.next_power_of_two(), it.bucket_size)
            }
            _ => capacity,
        };

        let params = FilterParams {
            capacity,
            placement,
            expansion: round_expansion(expansion),
            max_expansions: narrow(max_expansions),
            max_filter_bytes: defaults.max_filter_bytes,
            attributes: request.attributes.clone(),
        };
        match params.too_large() {
            None => Ok(params),
            Some(refused) => Err(vec![refused]),
        }
    }

    /// Why it is refused if it takes more bytes than it may before it grows.
    pub fn too_large(&self) -> Option<ParamsError> {
        let (bytes, most) = (self.first_bytes(), self.max_filter_bytes);
        (bytes > most).then(|| ParamsError {
            field: "capacity",
            given: format!("{}, which needs {bytes} bytes", self.capacity),
            allowed: format!(
                "what fits in {most} bytes a filter; ask for less, or start the server with a larger --max-filter-bytes"
            ),
        })
    }
}

/// Expansions after which the filter is full. With the layout `classic` each
/// item is asked of every sub-filter, so a server bounds how many there may be;
/// doublings of the layout `paged` make no question dearer.
fn max_expansions(
    request: &FilterRequest,
    defaults: &Defaults,
    kind: LayoutKind,
    refusals: &mut Refusals,
) -> u64 {
    let most = match kind {
        LayoutKind::Classic => defaults.most_expansions(),
        LayoutKind::Paged => u64::from(u16::MAX),
    };
    let given = match request.max_expansions {
        Some(given) => given,
        None if request.capacity_in_slots && kind == LayoutKind::Classic => {
            defaults.redisbloom_expansions()
        }
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
        refusals.add("max_expansions", given, allowed);
    }
    given
}

/// An explicit layout settles it; else the fields that only one layout has;
/// else the server's default. Refuses fields of the other layout.
fn choose_layout(
    request: &FilterRequest,
    defaults: &Defaults,
    refusals: &mut Refusals,
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
    match kind {
        LayoutKind::Paged => {
            for (field, given) in of_classic.into_iter().flatten() {
                let allowed = format!(
                    "no value {because}: it belongs to the layout classic, where the bucket size decides the error; leave it out and say the error_rate, or leave error_rate, promised_growth, fingerprint_bits and layout out"
                );
                refusals.add(field, given, allowed);
            }
            if request.error_rate.is_some()
                && let Some((field, bits)) = bits
            {
                let allowed = "no value beside error_rate, which decides it; leave one of them out";
                refusals.add(field, bits, allowed);
            }
        }
        LayoutKind::Classic => {
            for (field, given) in of_paged.into_iter().flatten() {
                let allowed = format!(
                    "no value {because}, whose error follows from bucket_size; leave it out, or ask for the layout paged"
                );
                refusals.add(field, given, allowed);
            }
        }
    }
    kind
}

/// With the smallest capacity, which follows from the bucket size that was asked for.
fn classic_placement(
    request: &FilterRequest,
    defaults: &Defaults,
    refusals: &mut Refusals,
) -> (ClassicPlacement, u64) {
    let bucket_size = request.bucket_size.unwrap_or(defaults.bucket_size);
    let bucket_size = refusals.within("bucket_size", bucket_size, 1..=MAX_BUCKET_SIZE);
    let longest = request.max_iterations.unwrap_or(defaults.max_iterations);
    let max_iterations = refusals.within("max_iterations", longest, 1..=u64::from(u16::MAX));
    let placement = ClassicPlacement {
        bucket_size: narrow(bucket_size),
        max_iterations: narrow(max_iterations),
    };
    (placement, bucket_size.saturating_mul(2))
}
