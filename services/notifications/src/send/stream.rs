//! A connection to a server that may send a limited number of bytes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{CONNECT_LIMIT, tls_config};

/// Most bytes that a server may send on a connection.
const RECEIVED_BYTES_MAX: usize = 256 << 10;
/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Both directions of a connection.
pub(super) trait Connection:
    AsyncRead + AsyncWrite + Send + Sync + Unpin + fmt::Debug
{
}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + fmt::Debug> Connection for T {}

/// A connection with a limit.
#[derive(Debug)]
pub(super) struct Bounded {
    inner: Box<dyn Connection>,
    peer: SocketAddr,
    left: usize,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let received = buffer.filled().len() - before;
        self.left = match self.left.checked_sub(received) {
            Some(left) => left,
            None => return Poll::Ready(Err(io::Error::other("the server sends too much"))),
        };
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl lettre::transport::smtp::client::AsyncTokioStream for Bounded {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

/// Connects to a server, with TLS if it has `authorities`: a file, or those of the system.
pub(super) async fn connect(
    host: &str,
    port: u16,
    authorities: Option<Option<&Path>>,
) -> Result<Bounded, String> {
    let failed = |why: &dyn fmt::Display| format!("connect to {host}, port {port}: {why}");
    let addresses = tokio::net::lookup_host((host, port)).await;
    let addresses = addresses.map_err(|error| failed(&error))?;
    let mut last = failed(&"the name has no address");
    for address in addresses.take(ADDRESSES_MAX) {
        let stream = match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                last = failed(&error);
                continue;
            }
            Err(_) => {
                last = failed(&"it does not respond");
                continue;
            }
        };
        let inner: Box<dyn Connection> = match authorities {
            None => Box::new(stream),
            Some(file) => {
                let connector = TlsConnector::from(tls_config(file)?);
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|error| failed(&error))?;
                let connected = connector.connect(name, stream).await;
                Box::new(connected.map_err(|error| failed(&error))?)
            }
        };
        return Ok(Bounded {
            inner,
            peer: address,
            left: RECEIVED_BYTES_MAX,
        });
    }
    Err(last)
}
