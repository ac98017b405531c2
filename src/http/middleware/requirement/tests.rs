use super::*;
use crate::http::routes;
use std::collections::BTreeMap;

/// As the design has it: each route has its line here.
const SCOPES: &str = "
    GET /filters read
    PUT /filters/{key} write
    GET /filters/{key} read
    HEAD /filters/{key} read
    PATCH /filters/{key} admin
    DELETE /filters/{key} admin
    POST /filters/{key}/items write
    POST /filters/{key}/items/delete write
    POST /filters/{key}/import write
    GET /filters/{key}/imports/{id} read
    GET /filters/{key}/exists read
    POST /filters/{key}/exists read
    GET /filters/{key}/count read
    POST /filters/{key}/count read
    POST /filters/{key}/values write
    POST /filters/{key}/values/delete write
    GET /filters/{key}/values read
    POST /filters/{key}/values/query read
    POST /filters/{key}/values/replace write
    GET /filters/{key}/locate read
    POST /preview read
    POST /lookup read
    GET /filters/{key}/dump read
    PUT /filters/{key}/dump write
    POST /filters/{key}/compact admin
    GET /filters/{key}/compaction read
    POST /admin/backups admin
    GET /admin/backups admin
    GET /admin/backups/{id} admin
    GET /admin/backups/{id}/status admin
    GET /admin/clock admin
    POST /admin/clock/confirm admin
    GET /livez none
    GET /readyz none
    GET /cluster read
    GET /metrics read
    GET /openapi.json none
";

#[test]
fn every_operation_says_who_may_call_it() {
    let document = routes::table().into_openapi();
    let mut found = BTreeMap::new();
    for (path, item) in &document.paths.paths {
        for (method, operation) in methods(item) {
            let scope = scope_of(operation);
            assert!(scope.is_some(), "{method} {path} has no security");
            let scope = RouteRequirement::of(path, operation)
                .scope
                .map_or("none", Scope::name);
            found.insert(format!("{method} {path}"), scope.to_owned());
        }
    }
    let expected = SCOPES
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let expected = expected.map(|line| {
        let (operation, scope) = line.rsplit_once(' ').unwrap();
        (operation.to_owned(), scope.to_owned())
    });
    assert_eq!(found, expected.collect());
}

#[test]
fn what_is_not_described_needs_the_highest_scope() {
    let requirements = RouteRequirements::of(&routes::table().into_openapi());
    let scope = |path: &str, method| requirements.find(path, &method).scope;
    assert_eq!(scope("/nobody/knows", Method::GET), Some(Scope::Admin));
    assert_eq!(scope("/filters", Method::HEAD), Some(Scope::Read));
    assert_eq!(scope("/filters", Method::DELETE), Some(Scope::Admin));
    assert_eq!(scope_of(&Operation::new()), None);
    assert_eq!(
        RouteRequirement::of("/new", &Operation::new()).scope,
        Some(Scope::Admin)
    );
}
