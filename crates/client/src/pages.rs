//! Lists that come in pages.

use crate::client::Client;
use crate::error::Result;
use longhand_protocol::call::PagedRequest;

/// The pages of a list, each by a call.
#[derive(Debug)]
pub struct Pages<R> {
    client: Client,
    /// For the next page; none after the last one.
    request: Option<R>,
}

impl Client {
    /// The pages of a list, each by a call. Nothing is asked of the daemon before the first page is.
    pub fn pages<R: PagedRequest>(&self, request: R) -> Pages<R> {
        Pages { client: self.clone(), request: Some(request) }
    }
}

impl<R: PagedRequest> Pages<R> {
    /// The next page; none after the last one.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn next(&mut self) -> Result<Option<R::Answer>> {
        let Some(request) = &mut self.request else { return Ok(None) };
        let page = self.client.call(request.clone()).await?;
        match R::next_page_token(&page) {
            "" => self.request = None,
            token => request.set_page_token(token.to_owned()),
        }
        Ok(Some(page))
    }

    /// The entries of all pages from here on.
    ///
    /// # Errors
    ///
    /// What a call ends with.
    pub async fn all<T>(mut self, entries: impl Fn(R::Answer) -> Vec<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.append(&mut entries(page));
        }
        Ok(all)
    }
}
