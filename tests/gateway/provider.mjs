// An OpenID Connect provider that is not ours: npm's oidc-provider, with its own pages for signing in.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, port] = process.argv.slice(2);
const found = createRequire(`${folder}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));
const account = (id) => ({
  accountId: id,
  claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: ['vision-team'] }),
});
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'headrace',
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'authorization_code'],
    redirect_uris: ['http://127.0.0.1/v1/login/return'],
    response_types: ['code'],
  }],
  features: { deviceFlow: { enabled: true } },
  scopes: ['openid', 'profile', 'email', 'groups'],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => account(id),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
