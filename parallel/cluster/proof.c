#include "parallel/cluster/proof.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

yk_status yk_nonce(unsigned char nonce[YK_NONCE_BYTES], yk_err *err)
{
  int result = gnutls_rnd(GNUTLS_RND_NONCE, nonce, YK_NONCE_BYTES);
  if (result == 0) return YK_OK;
  return yk_err_set(err, YK_E_IO, "random numbers: %s", gnutls_strerror(result));
}

yk_status yk_proof(yk_secret secret, const char *role, const unsigned char client_nonce[YK_NONCE_BYTES],
                   const unsigned char server_nonce[YK_NONCE_BYTES], const void *body, size_t n_bytes,
                   unsigned char mac[YK_MAC_BYTES], yk_err *err)
{
  gnutls_hmac_hd_t hmac;
  int result = gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, secret.bytes ? secret.bytes : "", secret.n_bytes);
  if (result != 0) return yk_err_set(err, YK_E_IO, "HMAC: %s", gnutls_strerror(result));
  result = gnutls_hmac(hmac, role, strlen(role) + 1);
  if (result == 0) result = gnutls_hmac(hmac, client_nonce, YK_NONCE_BYTES);
  if (result == 0) result = gnutls_hmac(hmac, server_nonce, YK_NONCE_BYTES);
  if (result == 0 && n_bytes > 0) result = gnutls_hmac(hmac, body, n_bytes);
  gnutls_hmac_deinit(hmac, mac);
  return result == 0 ? YK_OK : yk_err_set(err, YK_E_IO, "HMAC: %s", gnutls_strerror(result));
}

bool yk_proof_equal(const unsigned char a[YK_MAC_BYTES], const unsigned char b[YK_MAC_BYTES])
{
  return gnutls_memcmp(a, b, YK_MAC_BYTES) == 0;
}
