//! `bulkhead user`, `bulkhead token`

use std::path::PathBuf;

use ::head::args::HeadPlace;
use api::Role;
use clap::{Args, Subcommand};

/// `user`
#[derive(Debug, Args)]
pub struct UserCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: UserVerb,
    /// Where accounts are.
    #[command(flatten)]
    pub place: HeadPlace,
}

/// What to do with users.
#[derive(Debug, Subcommand)]
pub enum UserVerb {
    /// Add a user of the API and the console
    #[command(after_help = "Examples:\n  bulkhead user add anna --role admin\n  \
                            bulkhead user add bert --role operator --password-file secret")]
    Add {
        /// The name
        name: String,
        /// What they may do: admin, operator or read-only
        #[arg(long)]
        role: Role,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the users
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead user list --json"
    )]
    List,
    /// Remove a user with their tokens
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead user remove bert"
    )]
    Remove {
        /// The name
        name: String,
    },
    /// Give a user another password
    #[command(after_help = "Example:\n  bulkhead user passwd anna")]
    Passwd {
        /// The name
        name: String,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// Where a password is.
#[derive(Debug, Args)]
pub struct PasswordArgs {
    /// File whose first line is the password [default: a prompt, or the standard input]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `token`
#[derive(Debug, Args)]
pub struct TokenCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: TokenVerb,
    /// Where accounts are.
    #[command(flatten)]
    pub place: HeadPlace,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Make a token for a program; it is shown once
    #[command(
        after_help = "Examples:\n  bulkhead token create --user anna prometheus --role read-only\n  \
                            bulkhead token create --user anna ansible --expires-days 90"
    )]
    Create {
        /// What it is for
        name: String,
        /// Whose it is
        #[arg(long)]
        user: String,
        /// What may be done with it [default: all that its user may]
        #[arg(long)]
        role: Option<Role>,
        /// After how many days it ends [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        expires_days: Option<u32>,
    },
    /// List the tokens
    #[command(visible_alias = "ls", after_help = "Example:\n  bulkhead token list")]
    List,
    /// Revoke a token
    #[command(after_help = "Example:\n  bulkhead token revoke 3f0c9a7e21bd")]
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}
