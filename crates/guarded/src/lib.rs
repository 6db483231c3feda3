//! `#[guarded]`: what Python calls ends with an exception of ours, whatever happens in it.
//!
//! Not here: what becomes of a panic. That is `crate::error::guard` of the crate that uses this.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Attribute, Block, ImplItem, Item, ReturnType, Signature, Type, parse_macro_input, parse_quote};

/// Stands before `#[pyfunction]` or `#[pymethods]`: each body runs within `crate::error::guard`, and what gave a plain
/// value gives a `PyResult` of it.
#[proc_macro_attribute]
pub fn guarded(_words: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    match &mut item {
        Item::Fn(function) => guard(&mut function.attrs, &mut function.sig, &mut function.block),
        Item::Impl(methods) => {
            for one in &mut methods.items {
                if let ImplItem::Fn(method) = one {
                    guard(&mut method.attrs, &mut method.sig, &mut method.block);
                }
            }
        }
        other => return syn::Error::new_spanned(other, "a function or methods").to_compile_error().into(),
    }
    quote!(#item).into()
}

fn guard(attributes: &mut Vec<Attribute>, signature: &mut Signature, block: &mut Block) {
    let given: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, given) => (**given).clone(),
    };
    let body = block.clone();
    if is_result(&given) {
        *block = parse_quote!({ crate::error::guard(move || -> #given #body)? });
    } else {
        *block = parse_quote!({ crate::error::guard(move || -> #given #body) });
        signature.output = parse_quote!(-> ::pyo3::PyResult<#given>);
    }
    // Lints look at what was written, which is a function without a closure.
    attributes.push(parse_quote!(#[allow(clippy::redundant_closure_call, clippy::unnecessary_wraps)]));
}

fn is_result(given: &Type) -> bool {
    matches!(given, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "PyResult"))
}
