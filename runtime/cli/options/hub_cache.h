/* hub_cache.h - models in the cache that Hugging Face's tools download to:
 *
 *   CACHE/models--ORG--NAME/refs/REVISION            text: the commit that a branch or tag stands for
 *                           snapshots/COMMIT/FILE    links into blobs
 *                           blobs/HASH[.incomplete]  contents
 *
 * Nothing is downloaded. */
#ifndef YK_CLI_HUB_CACHE_H
#define YK_CLI_HUB_CACHE_H

#include <stdbool.h>

#include "base/status.h"

typedef struct yk_hub_query {
  const char *name;     /* "org/name", or "name" for models of before there were organisations */
  const char *revision; /* a branch, a tag or a whole commit; NULL: main */
  const char *cache;    /* NULL: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else below ~ */
  bool needs_weights;   /* else config.json or a tokenizer is enough */
} yk_hub_query;

/* yk_hub_is_name - whether text has the form of a model's name at the hub. */
bool yk_hub_is_name(const char *text);

/* yk_hub_find - *out: the directory of the snapshot, malloc'd, the caller's; every file that the model needs is there.
 *   Errors: YK_E_IO where the model or revision is not in the cache, or its download is incomplete: with the files that
 *   are missing, and the command that downloads them. YK_E_INVAL (a revision that leaves the cache), YK_E_FORMAT (an
 *   index of weights that is no JSON), YK_E_NOMEM. */
yk_status yk_hub_find(const yk_hub_query *query, char **out, yk_err *err);

#endif
