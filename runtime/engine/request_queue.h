/* request_queue.h - the encoding of the outputs that the engine thread (request_write.c) passes to a request's reader
 * (request_read.c). */
#ifndef YK_ENGINE_REQUEST_QUEUE_H
#define YK_ENGINE_REQUEST_QUEUE_H

#include "engine/request.h"

/* One queued token. special_bytes of yk_text_span, n_top ids, n_top log-probabilities, n_listed more log-probabilities
 * and text_bytes of text follow in the queue, then 1 to 8 zeros up to a multiple of the record's alignment, so that all
 * data can be read in place. */
typedef struct yk_request_record {
  int64_t time_ns; /* when the token was queued */
  bool is_prompt;
  int32_t token_id;
  float logprob;
  int32_t n_top, n_listed;
  uint32_t text_bytes, special_bytes;
} yk_request_record;

enum { YK_RECORD_ALIGNMENT = 8 };
_Static_assert(sizeof(yk_request_record) % YK_RECORD_ALIGNMENT == 0 && sizeof(yk_text_span) % YK_RECORD_ALIGNMENT == 0,
               "what follows a record, and the next one, are aligned");

/* Zeros after a record whose text ends at this offset of the queue. */
static inline size_t yk_record_n_zeros(size_t end_of_text)
{
  return YK_RECORD_ALIGNMENT - end_of_text % YK_RECORD_ALIGNMENT;
}

#endif
