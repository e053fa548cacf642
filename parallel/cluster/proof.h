/* proof.h - how both ends of a connection prove that they have the run's key, by HMAC-SHA256 over fresh nonces. */
#ifndef YK_PARALLEL_CLUSTER_PROOF_H
#define YK_PARALLEL_CLUSTER_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { YK_NONCE_BYTES = 32, YK_MAC_BYTES = 32 };

/* A secret of any length; not owned. */
typedef struct yk_secret {
  const void *bytes;
  size_t n_bytes;
} yk_secret;

/* yk_nonce - fresh random bytes. Errors: YK_E_IO. */
yk_status yk_nonce(unsigned char nonce[YK_NONCE_BYTES], yk_err *err);

/* yk_proof - HMAC(secret, role | both nonces | body). role: separates the directions, so that no end can return a proof
 *   that it has received. body [n_bytes]: the data that the proof authenticates. Errors: YK_E_IO. */
yk_status yk_proof(yk_secret secret, const char *role, const unsigned char client_nonce[YK_NONCE_BYTES],
                   const unsigned char server_nonce[YK_NONCE_BYTES], const void *body, size_t n_bytes,
                   unsigned char mac[YK_MAC_BYTES], yk_err *err);

/* yk_proof_equal - compares in constant time. */
bool yk_proof_equal(const unsigned char a[YK_MAC_BYTES], const unsigned char b[YK_MAC_BYTES]);

#endif
