//! Draws the curves.

use crate::curves::Curve;
use crate::legend::legend;
use crate::rounds::short;
use plotters::prelude::*;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Colours that differ in brightness, too, for those who see no hue.
const COLOURS: [RGBColor; 6] = [
    RGBColor(29, 112, 118),
    RGBColor(166, 38, 28),
    RGBColor(46, 46, 90),
    RGBColor(130, 190, 194),
    RGBColor(224, 150, 142),
    RGBColor(150, 150, 190),
];

/// Writes a file a curve; returns where they are.
pub(crate) fn draw(curves: &[Curve], folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for curve in curves {
        let file = folder.join(format!("{}.svg", curve.name));
        std::fs::write(&file, drawn(curve)?)?;
        files.push(file);
    }
    Ok(files)
}

fn drawn(curve: &Curve) -> Result<String, Box<dyn Error>> {
    let points = || curve.lines.iter().flat_map(|line| line.points.iter());
    let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let (left, right) = (least(|it| it.0), most(|it| it.0));
    // Whole decades, so that there are numbers to read; and room for the legend.
    let low = 10f64.powf(least(|it| it.1).log10().floor());
    let high =
        10f64.powf(most(|it| it.1).log10().ceil()) * if curve.lines.len() > 3 { 10.0 } else { 1.0 };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 460)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(76);
        // The kinds of axes are types of their own.
        macro_rules! draw_on {
            ($x:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, (low..high).log_scale())?;
                chart
                    .configure_mesh()
                    .x_desc(curve.x)
                    .y_desc(curve.y)
                    .x_label_formatter(&|x: &f64| short(*x))
                    .y_label_formatter(&|y: &f64| short(*y))
                    .light_line_style(WHITE.mix(0.0))
                    .bold_line_style(RGBColor(226, 222, 213))
                    .label_style(("sans-serif", 14))
                    .draw()?;
                for (line, colour) in curve.lines.iter().zip(COLOURS.into_iter().cycle()) {
                    chart
                        .draw_series(
                            LineSeries::new(line.points.clone(), colour.stroke_width(3))
                                .point_size(4),
                        )?
                        .label(line.name.as_str())
                        .legend(move |(x, y)| {
                            PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3))
                        });
                }
                legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
            }};
        }
        match curve.x_is_log {
            true => draw_on!((left..right * 1.2).log_scale()),
            false => draw_on!(0.0..right * 1.05),
        }
        area.present()?;
    }
    Ok(svg)
}
