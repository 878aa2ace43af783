//! Lists that come in pages.

/// Entries asked for per page.
pub(super) const PAGE_SIZE: i32 = 200;

/// All entries of a list. `page` asks for the page with a token, and returns its entries with the next page's token.
pub(super) async fn all<T>(
    mut page: impl AsyncFnMut(String) -> anyhow::Result<(Vec<T>, String)>,
) -> anyhow::Result<Vec<T>> {
    let (mut entries, mut token) = (Vec::new(), String::new());
    loop {
        let (more, next) = page(token).await?;
        entries.extend(more);
        if next.is_empty() {
            return Ok(entries);
        }
        token = next;
    }
}
