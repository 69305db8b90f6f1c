//! A POST request to a server. Redirections are not followed, and of the reply only the status is used.

use appliance::alerts::HttpServer;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use zeroize::Zeroizing;

use super::{read_secret, stream};

/// Longest head of a reply, in bytes; hyper's smallest limit is 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest body that is read, so that the server can complete its reply.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Sends `body` with these headers, and the token of the server.
pub(super) async fn post(
    server: &HttpServer,
    path: &str,
    body: Vec<u8>,
    headers: &[(&str, &str)],
) -> Result<(), String> {
    let url = &server.url;
    let token = server.token_file.as_deref().map(read_secret).transpose()?;
    let authorities = url.is_tls.then_some(server.authority_file.as_deref());
    let connection = stream::connect(&url.host, url.port, authorities).await?;
    let failed = |error: hyper::Error| format!("request to {}: {error}", url.host);
    let (mut sender, driver) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(connection))
        .await
        .map_err(failed)?;
    let mut request = Request::post(path)
        .header("host", url.authority())
        .header(
            "user-agent",
            concat!("bulkhead/", env!("CARGO_PKG_VERSION")),
        )
        .header("connection", "close");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(token) = token {
        let value = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let value = hyper::header::HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| "the token has characters that HTTP does not allow")?;
        value.set_sensitive(true);
        request = request.header("authorization", value);
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|_| "the request has characters that HTTP does not allow")?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        // A body that is too long or late does not matter once there is a status.
        let _ = Limited::new(response.into_body(), REPLY_BYTES_MAX)
            .collect()
            .await;
        drop(sender);
        match status {
            status if status.is_success() => Ok(()),
            status if status.is_redirection() => Err(format!(
                "{} redirects (HTTP {}), which is not followed: write the final address as url",
                url.host,
                status.as_u16()
            )),
            status => Err(format!("{} replied HTTP {}", url.host, status.as_u16())),
        }
    };
    // The driver returns when the connection is closed; the exchange has the result.
    tokio::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        _ = driver => exchange.await,
    }
}
