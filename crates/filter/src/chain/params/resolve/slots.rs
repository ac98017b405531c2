//! The slots of a filter of the layout `paged`, and how much growth they keep.

use super::values::Values;
use crate::chain::params::error_rate::{ErrorRate, code_of, smallest_rate};
use crate::chain::params::limits::{
    DEFAULT_PROMISED_GROWTH, MAX_PROMISED_GROWTH, MIN_VALUE_FINGERPRINT_BITS,
    PROMISED_GROWTH_WITHOUT_CAPACITY,
};
use crate::chain::params::placement::PagedPlacement;
use crate::chain::params::refusals::{Refusals, narrow};
use crate::chain::params::request::{Defaults, FilterRequest};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::rate;

/// The slots of a filter that splits pages, by their width or by what it
/// promises.
pub(super) fn paged_placement(
    request: &FilterRequest,
    defaults: &Defaults,
    expansion: u64,
    refusals: &mut Refusals,
) -> PagedPlacement {
    let growth = promised_growth(request, expansion, refusals);
    let values = Values::of(request, refusals);
    if let Some(bits) = request.fingerprint_bits {
        return of_width(bits, request, growth, values, refusals);
    }
    let least = smallest_rate(values.bits);
    let asked_for = match request.error_rate {
        Some(rate) => rate,
        // A default never refuses what was asked for.
        None => defaults.error_rate.max(least),
    };
    let error_rate = ErrorRate::new(asked_for);
    if error_rate.is_some() && asked_for < least && values.bits > 0 {
        let allowed = format!(
            "{least:.2e} to 0.5 {}, whose slots have {} bits left for the fingerprint; ask for a larger error_rate, or for {}",
            values.said(),
            32 - values.bits,
            values.remedy()
        );
        refusals.add("error_rate", asked_for, allowed);
    }
    if error_rate.is_none() {
        let allowed =
            "2e-8 to 0.5, the share of absent items that may be found; a typical one is 0.001";
        refusals.add("error_rate", asked_for, allowed);
    }
    // A default never refuses what was asked for.
    let most = error_rate.map_or(growth, |rate| rate.largest_growth(values.bits).max(1));
    let promised_growth = match request.promised_growth {
        Some(_) => growth,
        None => growth.min(most),
    };
    if promised_growth > most {
        let allowed = format!(
            "1 to {most} with the error_rate {asked_for:?}, kept by slots of 32 bits; ask for a larger error_rate, or for a larger capacity and less growth"
        );
        refusals.add("promised_growth", promised_growth, allowed);
    }
    PagedPlacement {
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
    refusals: &mut Refusals,
) -> PagedPlacement {
    let width = SlotWidth::from_bits(bits);
    if width.is_none() {
        let or = match bits {
            8 => "; slots of 8 bits are those of the layout classic",
            _ => "",
        };
        let allowed = format!("12, 16, 21 or 32{or}");
        refusals.add("fingerprint_bits", bits, allowed);
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
        refusals.add(field, given, allowed);
    }
    let code = code.unwrap_or(SlotCode::of(SlotWidth::Bits16));
    let most = 1 << rate::most_promised(code);
    if request.promised_growth.is_some() && growth > most {
        let allowed = format!("1 to {most} with fingerprint_bits {bits}; ask for more bits");
        refusals.add("promised_growth", growth, allowed);
    }
    PagedPlacement {
        code,
        error_rate: None,
        promised_growth: growth.min(most),
        values_per_item: values.per_item,
        window: values.window,
    }
}

/// How many times its capacity the filter may have and keep its rate.
fn promised_growth(request: &FilterRequest, expansion: u64, refusals: &mut Refusals) -> u32 {
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
        refusals.add("promised_growth", given, allowed);
    }
    narrow(given.clamp(1, most))
}
