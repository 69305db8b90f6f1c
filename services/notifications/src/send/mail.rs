//! Mail over SMTP (RFC 5321), with STARTTLS (RFC 3207) and a login (RFC 4954).

use std::time::SystemTime;

use appliance::alerts::{Mail, MailTls};
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message};

use super::{read_authorities, read_secret, stream};
use crate::message::Rendered;

/// Sends the message to all recipients.
pub(super) async fn send(mail: &Mail, message: &Rendered) -> Result<(), String> {
    let letter = letter(mail, message)?;
    let password = mail.password_file.as_deref().map(read_secret).transpose()?;
    let authority_file = mail.authority_file.as_deref();
    let authorities = (mail.tls == MailTls::Tls).then_some(authority_file);
    let connection = stream::connect(&mail.server, mail.port(), authorities).await?;
    let step = |step: &'static str| move |error| reason(step, &error);
    let own = ClientId::Domain(own_name());
    let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(connection), &own);
    let mut smtp = greeted.await.map_err(step("greeting"))?;
    if mail.tls == MailTls::Starttls {
        if !smtp.can_starttls() {
            return Err(format!(
                "{} offers no STARTTLS, and nothing was sent",
                mail.server
            ));
        }
        let parameters = parameters(mail)?;
        let started = smtp.starttls(parameters, &own).await;
        started.map_err(step("STARTTLS"))?;
    }
    if let (Some(user), Some(password)) = (&mail.user, password) {
        let credentials = Credentials::new(user.clone(), password.as_str().to_owned());
        let accepted = smtp
            .auth(&[Mechanism::Plain, Mechanism::Login], &credentials)
            .await;
        accepted.map_err(step("login"))?;
    }
    let sent = smtp.send(letter.envelope(), &letter.formatted()).await;
    sent.map_err(step("message"))?;
    // The server has the message: a failure of the farewell is none.
    let _ = smtp.quit().await;
    Ok(())
}

/// The failure of a step. A reply is reduced to its code, because it could contain the password.
fn reason(step: &str, error: &lettre::transport::smtp::Error) -> String {
    match error.status() {
        Some(code) => format!("{step}: the server replied {code}"),
        None => format!("{step}: {}", control::failure::chain(error)),
    }
}

fn parameters(mail: &Mail) -> Result<TlsParameters, String> {
    let pem = read_authorities(mail.authority_file.as_deref())?;
    let failed = |error: lettre::transport::smtp::Error| control::failure::chain(&error);
    let builder = TlsParameters::builder(mail.server.clone())
        .certificate_store(CertificateStore::None)
        .add_root_certificate(Certificate::from_pem(&pem).map_err(failed)?);
    builder.build().map_err(failed)
}

fn own_name() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let is_good = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    if is_good {
        name.into_owned()
    } else {
        "localhost".to_owned()
    }
}

fn letter(mail: &Mail, message: &Rendered) -> Result<Message, String> {
    let mailbox = |address: &String| -> Result<Mailbox, String> {
        let parsed: Address = address
            .parse()
            .map_err(|_| format!("{address:?} is no address of mail"))?;
        Ok(Mailbox::new(None, parsed))
    };
    let from = mailbox(&mail.from)?;
    let id = format!("<{:032x}@{}>", fastrand::u128(..), from.email.domain());
    let mut builder = Message::builder()
        .from(from)
        .subject(message.subject.clone())
        .date(SystemTime::now())
        .message_id(Some(id));
    for to in &mail.to {
        builder = builder.to(mailbox(to)?);
    }
    // Replies by programs, such as absence notes, are not wanted (RFC 3834).
    let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
    builder = builder.raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()));
    let built = builder
        .header(ContentType::TEXT_PLAIN)
        .body(message.text.clone());
    built.map_err(|error| control::failure::chain(&error))
}
