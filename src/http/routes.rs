//! The only route table, and the layers around it.

use super::App;
use super::assets::{Asset, Assets};
use super::cluster::{commands, internal};
use super::handlers::{
    backups, clock, compaction, dumps, filters, imports, items, locate, lookup, operations,
    preview, values,
};
use super::listen::role::ListenerRole;
use super::listen::role::Transport;
use super::media::JSON;
use super::middleware::audit::AuditedRoutes;
use super::middleware::auth::AuthLayer;
use super::middleware::coding::{CodingLayer, Compressed, Unpacked};
use super::middleware::errors::ErrorLayer;
use super::middleware::layer::MiddlewareLayer;
use super::middleware::requirement::RouteRequirements;
use super::problem::HttpError;
use super::{console, docs, openapi};
use axum::Router;
use axum::handler::Handler as _;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::any;
use std::collections::HashMap;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Everything that is for operators.
const ADMIN: &str = "/admin/{*rest}";

/// Every route that the API has, with its description.
pub(super) fn table() -> OpenApiRouter<Arc<App>> {
    routes_of(ListenerRole::All)
}

fn routes_of(role: ListenerRole) -> OpenApiRouter<Arc<App>> {
    let table = OpenApiRouter::with_openapi(openapi::preamble());
    let table = match role {
        ListenerRole::All | ListenerRole::Filters => with_filters(table),
        ListenerRole::Operations | ListenerRole::Scrapers => table,
    };
    let table = match role {
        ListenerRole::All | ListenerRole::Operations => with_operations(table),
        ListenerRole::Filters | ListenerRole::Scrapers => table,
    };
    table
        .routes(routes!(operations::livez))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::cluster))
        .routes(routes!(operations::metrics))
        .routes(routes!(openapi_json))
}

fn with_filters(table: OpenApiRouter<Arc<App>>) -> OpenApiRouter<Arc<App>> {
    table
        .routes(routes!(filters::list_filters))
        .routes(routes!(
            filters::put_filter,
            filters::get_filter,
            filters::head_filter,
            filters::patch_filter,
            filters::delete_filter
        ))
        .routes(routes!(preview::preview_filter))
        .routes(routes!(items::add_items))
        .routes(routes!(items::delete_items))
        .routes(routes!(imports::import_items))
        .routes(routes!(imports::get_import))
        .routes(routes!(items::get_exists, items::post_exists))
        .routes(routes!(items::get_count, items::post_count))
        .routes(routes!(values::add_values, values::get_values))
        .routes(routes!(values::delete_values))
        .routes(routes!(values::replace_values))
        .routes(routes!(values::query_values))
        .routes(routes!(locate::get_location))
        .routes(routes!(lookup::look_up))
        .routes(routes!(dumps::get_dump, dumps::put_dump))
        .routes(routes!(compaction::compact_filter))
        .routes(routes!(compaction::get_compaction))
}

fn with_operations(table: OpenApiRouter<Arc<App>>) -> OpenApiRouter<Arc<App>> {
    table
        .routes(routes!(backups::post_backup, backups::list_backups))
        .routes(routes!(backups::get_backup))
        .routes(routes!(backups::get_backup_status))
        .routes(routes!(clock::get_clock))
        .routes(routes!(clock::confirm_clock))
}

/// The OpenAPI document as JSON text, indented, with a final newline: as it is
/// committed, printed and served.
pub fn openapi_document() -> String {
    openapi::text(table().into_openapi())
}

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    tag = "operations",
    security(()),
    responses((status = 200, description = "The OpenAPI document.", body = Object, example = json!({"openapi": "3.1.0"})))
)]
async fn openapi_json(asked: HeaderMap) -> Result<Response, HttpError> {
    const NAME: &str = "openapi.json";
    static DOCUMENT: Assets =
        Assets::new(|| HashMap::from([(NAME, Asset::new(JSON, openapi_document()))]));
    Ok(DOCUMENT.get(NAME).await?.answer(&asked))
}

/// The application as a service. The layers, from the outside: the error layer
/// renders errors, panics among them, and refuses foreign web pages; what the
/// API has is behind keys; bodies are compressed and decompressed.
pub fn router(app: Arc<App>, role: ListenerRole, transport: Transport) -> Router {
    let (routes, document) = routes_of(role).split_for_parts();
    let mut requirements = RouteRequirements::of(&document);
    let pages = match role {
        ListenerRole::All | ListenerRole::Filters => docs::routes().merge(console::routes()),
        ListenerRole::Operations | ListenerRole::Scrapers => {
            // Scrapers have no key, and this listener is for them.
            requirements.open("/metrics");
            match role {
                ListenerRole::Scrapers => {
                    Router::new().route(ADMIN, any(operations::certificate_missing))
                }
                _ => Router::new(),
            }
        }
    };
    let auth = AuthLayer {
        app: Arc::clone(&app),
        requirements,
    };
    let errors = MiddlewareLayer::new(ErrorLayer {
        app: Arc::clone(&app),
        transport,
        audited: Arc::new(AuditedRoutes::of(&document)),
    });
    // All at once: each time that layers are put around routes, these get a box
    // more, and each request a copy of it.
    let routes = routes.route_layer((
        errors.clone(),
        CodingLayer(Compressed),
        MiddlewareLayer::new(auth),
        // Inside of it: what is refused is not worth unpacking.
        CodingLayer(Unpacked),
    ));
    let pages = pages.layer(errors.clone());
    let between_pods = match role {
        ListenerRole::All | ListenerRole::Filters => {
            let routes = internal::routes().merge(commands::routes());
            routes.layer(errors.clone())
        }
        ListenerRole::Operations | ListenerRole::Scrapers => Router::new(),
    };
    bounded(routes.merge(pages).merge(between_pods), errors).with_state(app)
}

/// Routes with the error layer around whatever they don't answer.
fn bounded(routes: Router<Arc<App>>, errors: MiddlewareLayer<ErrorLayer>) -> Router<Arc<App>> {
    routes
        .fallback(operations::unknown_route.layer(errors.clone()))
        .method_not_allowed_fallback(operations::method_not_allowed.layer(errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::cluster::answer::{About, about};
    use crate::http::middleware::requirement::{RouteRequirement, methods};
    use crate::http::{HostPolicy, Limits};
    use crate::metrics::Metrics;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    use utoipa::openapi::OpenApi;

    async fn panicking() -> &'static str {
        panic!("on purpose: it says secret-item")
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_that_says_nothing_of_its_cause() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let app = App::new(Arc::clone(&metrics), Limits::default(), HostPolicy::Any);
        let routes = Router::new().route("/panicking", get(panicking));
        let errors = MiddlewareLayer::new(ErrorLayer {
            app: Arc::clone(&app),
            transport: Transport::Plain,
            audited: Arc::new(AuditedRoutes::of(&OpenApi::default())),
        });
        let routes = bounded(routes.route_layer(errors.clone()), errors);
        let router: Router = routes.with_state(app);
        let request = Request::get("/panicking").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(!problem.to_string().contains("secret-item"));
        assert_eq!(metrics.http_in_flight.get(), 0);
    }

    #[test]
    fn each_route_that_changes_something_goes_to_the_leader_or_is_the_pods_own() {
        let document = table().into_openapi();
        let (mut changes, mut asking, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (path, item) in &document.paths.paths {
            for (method, operation) in methods(item) {
                let about = about(RouteRequirement::of(path, operation), &method, path);
                let is_safe = [Method::GET, Method::HEAD].contains(&method);
                let route = format!("{method} {path}");
                match about {
                    About::Change => changes.push(route),
                    About::Question | About::Pod if is_safe => {}
                    About::Pod => own.push(route),
                    About::Question | About::Leader => asking.push(route),
                }
            }
        }
        let sorted = |mut routes: Vec<String>| {
            routes.sort_unstable();
            routes
        };
        assert_eq!(
            sorted(changes),
            [
                "DELETE /filters/{key}",
                "PATCH /filters/{key}",
                "POST /filters/{key}/compact",
                "POST /filters/{key}/import",
                "POST /filters/{key}/items",
                "POST /filters/{key}/items/delete",
                "POST /filters/{key}/values",
                "POST /filters/{key}/values/delete",
                "POST /filters/{key}/values/replace",
                "PUT /filters/{key}",
                "PUT /filters/{key}/dump",
            ]
        );
        assert_eq!(
            sorted(asking),
            [
                "GET /filters/{key}/compaction",
                "POST /filters/{key}/count",
                "POST /filters/{key}/exists",
                "POST /filters/{key}/values/query",
            ]
        );
        // They change nothing in any filter.
        assert_eq!(
            sorted(own),
            [
                "POST /admin/backups",
                "POST /admin/clock/confirm",
                "POST /lookup",
                "POST /preview",
            ]
        );
    }
}
