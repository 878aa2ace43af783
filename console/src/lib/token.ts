/** The token for changes, which the console's own page alone can read. */
export function changeToken(): string {
  const name = location.port ? `longhand-console-token-${location.port}` : 'longhand-console-token';
  const found = document.cookie.split('; ').find((cookie) => cookie.startsWith(`${name}=`));
  return found?.slice(name.length + 1) ?? '';
}
