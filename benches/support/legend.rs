//! The legend of every plot in the docs.

use plotters::coord::CoordTranslate;
use plotters::prelude::*;
use std::error::Error;

/// Draws which colour is which, in a corner.
pub(crate) fn legend<'a, DB, CT>(
    chart: &mut ChartContext<'a, DB, CT>,
    corner: SeriesLabelPosition,
) -> Result<(), Box<dyn Error>>
where
    DB: DrawingBackend<ErrorType: 'static> + 'a,
    CT: CoordTranslate,
{
    chart
        .configure_series_labels()
        .position(corner)
        .background_style(WHITE)
        .border_style(RGBColor(139, 134, 124))
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}
