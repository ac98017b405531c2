//! What slots keep beside the fingerprint: values, rows, or the epochs of a window.

use crate::chain::params::attributes::Attributes;
use crate::chain::params::limits::{
    MAX_EPOCHS, MAX_VALUE_BITS, MAX_VALUES_PER_ITEM, MAX_WINDOW_SECONDS,
};
use crate::chain::params::refusals::{Refusals, narrow};
use crate::chain::params::request::FilterRequest;
use crate::chain::params::window::Window;

/// The values that items may have, or the epochs.
#[derive(Clone, Copy, Default)]
pub(super) struct Values {
    /// 0: none.
    pub(super) bits: u8,
    pub(super) per_item: u16,
    pub(super) window: Option<Window>,
    /// Whether they are rows.
    pub(super) are_rows: bool,
}

impl Values {
    /// Those that a request asks for.
    pub(super) fn of(request: &FilterRequest, refusals: &mut Refusals) -> Values {
        match window(request, refusals) {
            None => values(request, refusals),
            window @ Some(it) => Values {
                bits: it.epoch_bits(),
                window,
                ..Values::default()
            },
        }
    }

    /// What there is, for a refusal.
    pub(super) fn said(&self) -> String {
        match self.window {
            Some(window) => format!("with a window of {} epochs", window.epochs()),
            None if self.are_rows => format!("with attributes of {} bits", self.bits),
            None => format!("with value_bits {}", self.bits),
        }
    }

    /// What would take fewer bits.
    pub(super) fn remedy(&self) -> &'static str {
        match self.window {
            Some(_) => "a coarser window_resolution_seconds",
            None if self.are_rows => "attributes of fewer bits",
            None => "fewer value_bits",
        }
    }
}

/// The window, if one was asked for.
fn window(request: &FilterRequest, refusals: &mut Refusals) -> Option<Window> {
    let Some(seconds) = request.window_seconds else {
        if let Some(given) = request.window_resolution_seconds {
            let allowed = "no value without window_seconds; say how long items are to be found";
            refusals.add("window_resolution_seconds", given, allowed);
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
            refusals.add(field, given, allowed);
        }
    }
    let seconds = refusals.within("window_seconds", seconds, 1..=MAX_WINDOW_SECONDS);
    if !(1..=MAX_WINDOW_SECONDS).contains(&seconds) {
        return None;
    }
    // Where none were asked for, 24 epochs.
    let usual = seconds.div_ceil(24);
    let resolution = request.window_resolution_seconds.unwrap_or(usual);
    let window = Window::new(seconds, resolution);
    if window.is_none() {
        let finest = Window::finest_resolution(seconds);
        let allowed = format!(
            "{finest} to {seconds} with window_seconds {seconds}, so that the window has from 1 to {MAX_EPOCHS} epochs"
        );
        refusals.add("window_resolution_seconds", resolution, allowed);
    }
    window
}

fn values(request: &FilterRequest, refusals: &mut Refusals) -> Values {
    let bits = match (&request.attributes, request.value_bits) {
        (Some(attributes), beside) => {
            if let Some(given) = beside {
                let allowed = "no value beside attributes, which decide it; leave one of them out";
                refusals.add("value_bits", given, allowed);
            }
            u64::from(attributes.bits())
        }
        (None, Some(bits)) => refusals.within("value_bits", bits, 1..=MAX_VALUE_BITS),
        (None, None) => {
            if let Some(given) = request.values_per_item {
                let allowed = "no value without value_bits or attributes; say what an item has";
                refusals.add("values_per_item", given, allowed);
            }
            return Values::default();
        }
    };
    let per_item = request.values_per_item.unwrap_or(1);
    let per_item = refusals.within("values_per_item", per_item, 1..=MAX_VALUES_PER_ITEM);
    Values {
        bits: narrow(bits.min(MAX_VALUE_BITS)),
        per_item: narrow(per_item),
        window: None,
        are_rows: request.attributes.is_some(),
    }
}
