/* request_lists.h - the list fields of a request: prompts, stop strings, biases; and the seed. */
#ifndef YK_OPENAI_REQUEST_LISTS_H
#define YK_OPENAI_REQUEST_LISTS_H

#include "openai/request.h"

/* One prompt, or a list of prompts: of strings, or of arrays of ids. name: of the field. */
yk_status yk_request_read_prompts(yk_openai_request *request, const char *name, yk_json value, yk_err *err);

/* A string or an array of strings. */
yk_status yk_request_read_stop(yk_openai_request *request, yk_json value, yk_err *err);

/* An array of texts; yk_request_encode_bad_words reads them from the body. */
yk_status yk_request_read_bad_words(yk_openai_request *request, yk_json value, yk_err *err);

/* yk_request_encode_bad_words - the ids of each word, as in vLLM: at the beginning of a text, and also after a space if
 *   the ids then have the same number and a different first id. */
yk_status yk_request_encode_bad_words(yk_openai_request *request, const yk_engine *engine, yk_err *err);

/* yk_request_read_stop_ids, yk_request_read_logprob_ids - an array of token ids; the request owns the copy. Errors:
 *   YK_E_FORMAT, YK_E_NOMEM. */
yk_status yk_request_read_stop_ids(yk_openai_request *request, yk_json value, yk_err *err);
yk_status yk_request_read_logprob_ids(yk_openai_request *request, yk_json value, yk_err *err);

/* {"50256": -100, ...} */
yk_status yk_request_read_biases(yk_openai_request *request, yk_json value, yk_err *err);

/* -2^63 to 2^64 - 1; a negative value stands for the value plus 2^64, as in PyTorch's generators; -1 stands for none,
 * as in vLLM. */
yk_status yk_request_read_seed(yk_openai_request *request, yk_json value, yk_err *err);

#endif
