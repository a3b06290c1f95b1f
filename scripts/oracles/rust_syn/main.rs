//! The parser `syn`: the functions of the files named on standard input, as JSON lines.
//!
//! Which functions: those of modules, `impl`, `trait` and `extern` blocks, outside all functions. Their lines begin
//! with the visibility or the first word of the signature, after all attributes.

use proc_macro2::{LineColumn, Span};
use std::io::BufRead;
use syn::spanned::Spanned;

fn main() {
    for line in std::io::stdin().lock().lines() {
        let path = line.expect("a file name");
        // syn leaves a byte order mark and a first `#!` line out of its line numbers no more than we do.
        let text = std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match text.map_err(|error| error.to_string()).and_then(|text| {
            syn::parse_file(&text).map_err(|error| format!("line {}: {error}", error.span().start().line))
        }) {
            Ok(file) => {
                println!("{{\"path\": {}, \"parsed\": true}}", quoted(&path));
                items(&path, &file.items);
            }
            Err(reason) => println!("{{\"path\": {}, \"failed\": {}}}", quoted(&path), quoted(&reason)),
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            '"' | '\\' => quoted.extend(['\\', one]),
            ' '.. => quoted.push(one),
            _ => quoted.push_str(&format!("\\u{:04x}", one as u32)),
        }
    }
    quoted + "\""
}

fn items(path: &str, items: &[syn::Item]) {
    for item in items {
        match item {
            syn::Item::Fn(one) => say(path, &one.sig, start(&one.vis, None, &one.sig), one.block.span(), true),
            syn::Item::Mod(one) => {
                if let Some((_, inner)) = &one.content {
                    self::items(path, inner);
                }
            }
            syn::Item::Impl(one) => {
                for item in &one.items {
                    if let syn::ImplItem::Method(one) = item {
                        let first = start(&one.vis, one.defaultness.as_ref().map(|word| word.span()), &one.sig);
                        say(path, &one.sig, first, one.block.span(), true);
                    }
                }
            }
            syn::Item::Trait(one) => {
                for item in &one.items {
                    if let syn::TraitItem::Method(one) = item {
                        let first = first_of(&one.sig);
                        match (&one.default, &one.semi_token) {
                            (Some(block), _) => say(path, &one.sig, first, block.span(), true),
                            (None, Some(semicolon)) => say(path, &one.sig, first, semicolon.span(), false),
                            (None, None) => {}
                        }
                    }
                }
            }
            syn::Item::ForeignMod(one) => {
                for item in &one.items {
                    if let syn::ForeignItem::Fn(one) = item {
                        say(path, &one.sig, start(&one.vis, None, &one.sig), one.semi_token.span(), false);
                    }
                }
            }
            _ => {}
        }
    }
}

fn first_of(signature: &syn::Signature) -> LineColumn {
    signature.span().start()
}

fn start(visibility: &syn::Visibility, default: Option<Span>, signature: &syn::Signature) -> LineColumn {
    match visibility {
        syn::Visibility::Inherited => default.map_or_else(|| first_of(signature), |word| word.start()),
        other => other.span().start(),
    }
}

fn say(path: &str, signature: &syn::Signature, first: LineColumn, last: Span, body: bool) {
    let name = signature.ident.to_string();
    println!(
        "{{\"path\": {}, \"name\": {}, \"start_line\": {}, \"end_line\": {}, \"body\": {body}}}",
        quoted(path),
        quoted(name.trim_start_matches("r#")),
        first.line,
        last.end().line,
    );
}
