/* frame.h - the head of every message between processes. Numbers are in the machine's byte order: a machine of the
 * other order is refused by the magic number. */
#ifndef YK_PARALLEL_CLUSTER_FRAME_H
#define YK_PARALLEL_CLUSTER_FRAME_H

#include <stdint.h>

#include "base/status.h"

enum { YK_FRAME_MAGIC = 0x454b4f59 /* "YOKE" */, YK_FRAME_VERSION = 1 };

/* Messages of each connection, in order: HELLO (client's nonce), CHALLENGE (server's nonce), PROOF (client's HMAC, then
 * the body of an entry or of a link), then ACCEPT (server's HMAC) or REFUSE (text). */
typedef enum yk_frame_type {
  YK_FRAME_HELLO = 1,
  YK_FRAME_CHALLENGE,
  YK_FRAME_PROOF,
  YK_FRAME_ACCEPT,
  YK_FRAME_REFUSE,
  YK_FRAME_DECISION, /* of the roll call */
  YK_FRAME_BEAT,     /* heartbeat */
  YK_FRAME_FAILURE,  /* code, rank, text */
  YK_FRAME_LEAVE,    /* the sender leaves in order */
  YK_FRAME_COMMAND,
  YK_FRAME_END, /* no further command */
  YK_FRAME_ANSWER,
  YK_FRAME_EXCHANGE,
  YK_FRAME_RANKS, /* data of ranks */
  YK_FRAME_N_TYPES
} yk_frame_type;

/* Largest bodies. */
#define YK_FRAME_MAX_PROOF    ((size_t)128 << 10)
#define YK_FRAME_MAX_DECISION ((size_t)4 << 20)
#define YK_FRAME_MAX_EXCHANGE ((size_t)64 << 20)
#define YK_FRAME_MAX_COMMAND  ((size_t)256 << 20)
#define YK_FRAME_MAX_FAILURE  ((size_t)1024)

typedef struct yk_frame {
  uint32_t magic;
  uint16_t version, type;
  uint32_t kind;     /* of a command; else 0 */
  uint32_t sequence; /* of data of ranks; else 0 */
  uint64_t n_bytes;  /* of the body */
} yk_frame;

static inline yk_frame yk_frame_of(yk_frame_type type, uint64_t n_bytes)
{
  return (yk_frame){.magic = YK_FRAME_MAGIC, .version = YK_FRAME_VERSION, .type = (uint16_t)type, .n_bytes = n_bytes};
}

/* yk_frame_check - checks that a received head has this version, one of two types (which may be equal), and a body of
 *   at most max_bytes. Errors: YK_E_COMM naming the failed check. */
yk_status yk_frame_check(const yk_frame *frame, yk_frame_type type, yk_frame_type other, uint64_t max_bytes,
                         yk_err *err);

#endif
