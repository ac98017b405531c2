//! What is said of each route, under four headings: its attribute on a function of its
//! name that does nothing. What callers may do is of the route table.
//!
//! | file | owns |
//! |---|---|
//! | `filters` | filters themselves, their growth, what they would be, dumps, compactions |
//! | `items` | adding, deleting, asking, counting, imports |
//! | `values` | values and rows of items |
//! | `server` | probes, metrics, the caller, the cluster, backups, the clock |

mod filters;
mod items;
mod server;
mod values;

use super::operations_of;
use crate::server::App;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

type Described = OpenApiRouter<Arc<App>>;

/// All of them.
pub(super) fn described() -> OpenApi {
    let all = Described::new()
        .merge(under("filters", of_filters()))
        .merge(under("items", of_items()))
        .merge(under("values", of_values()))
        .merge(under("operations", of_server()));
    all.into_openapi()
}

/// Routes under one heading of the description.
fn under(heading: &str, mut routes: Described) -> Described {
    let items = routes.get_openapi_mut().paths.paths.values_mut();
    for (_, operation) in items.flat_map(operations_of) {
        operation.tags = Some(vec![heading.to_owned()]);
    }
    routes
}

fn of_filters() -> Described {
    Described::new()
        .routes(routes!(filters::list_filters))
        .routes(routes!(
            filters::put_filter,
            filters::get_filter,
            filters::head_filter,
            filters::patch_filter,
            filters::delete_filter
        ))
        .routes(routes!(filters::get_filter_history))
        .routes(routes!(filters::preview_filter))
        .routes(routes!(filters::dump_filter, filters::restore_filter))
        .routes(routes!(filters::merge_filter))
        .routes(routes!(filters::compact_filter))
        .routes(routes!(filters::get_compaction))
}

fn of_items() -> Described {
    Described::new()
        .routes(routes!(items::add_items))
        .routes(routes!(items::delete_items))
        .routes(routes!(items::import_items))
        .routes(routes!(items::list_imports))
        .routes(routes!(items::get_import))
        .routes(routes!(items::get_item_exists, items::check_items))
        .routes(routes!(items::get_item_count, items::count_items))
        .routes(routes!(items::get_item_location))
        .routes(routes!(items::look_up_items))
}

fn of_values() -> Described {
    Described::new()
        .routes(routes!(values::add_values, values::get_item_values))
        .routes(routes!(values::delete_values))
        .routes(routes!(values::replace_values))
        .routes(routes!(values::query_values))
}

fn of_server() -> Described {
    Described::new()
        .routes(routes!(server::get_caller))
        .routes(routes!(server::get_liveness))
        .routes(routes!(server::get_readiness))
        .routes(routes!(server::get_cluster))
        .routes(routes!(server::get_metrics))
        .routes(routes!(server::get_openapi))
        .routes(routes!(server::create_backup, server::list_backups))
        .routes(routes!(server::download_backup))
        .routes(routes!(server::get_backup_status))
        .routes(routes!(server::get_clock))
        .routes(routes!(server::confirm_clock))
}
