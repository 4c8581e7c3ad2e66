//! A connection of hyper that ends after its present request if the worker stops.

use std::time::Duration;

use evcore_async::{is_shutting_down, shutting_down, sleep};
use hyper::{
    Response, Version,
    header::{CONNECTION, HeaderValue},
};

/// The time for which a stopping worker waits for the next request of an idle connection.
const GRACE: Duration = Duration::from_secs(1);

/// Waits until a stop has begun, and after that for `GRACE`.
pub(crate) async fn stops() {
    shutting_down().await;
    sleep(GRACE).await;
}

/// Adds `Connection: close` to a response if the worker stops and the request's version is
/// HTTP/1.1.
pub(crate) fn announce_stop<B>(version: Version, response: &mut Response<B>) {
    if is_shutting_down() && version == Version::HTTP_11 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
}

/// Runs a connection to its end, and ends it gracefully if the worker stops. This is a macro,
/// because hyper's connections of HTTP/1 and HTTP/2 have no trait in common.
macro_rules! run_until_stopped {
    ($connection:expr) => {{
        let mut connection = std::pin::pin!($connection);
        let ended = async { Some(connection.as_mut().await) };
        let ended = futures_lite::future::or(ended, async {
            $crate::graceful::stops().await;
            None
        })
        .await;
        match ended {
            Some(result) => result,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    }};
}
pub(crate) use run_until_stopped;
