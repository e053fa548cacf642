/* hub_cache.h - finds models in the download cache of Hugging Face's tools:
 *
 *   CACHE/models--ORG--NAME/refs/REVISION            text: the commit of a branch or tag
 *                           snapshots/COMMIT/FILE    links into blobs
 *                           blobs/HASH[.incomplete]  contents
 *
 * Nothing is downloaded. */
#ifndef YK_CLI_HUB_CACHE_H
#define YK_CLI_HUB_CACHE_H

#include <stdbool.h>

#include "base/status.h"

typedef struct yk_hub_query {
  const char *name;     /* "org/name", or "name" for models from before there were organisations */
  const char *revision; /* a branch, a tag or a full commit; NULL: main */
  const char *cache;    /* NULL: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else below ~ */
  bool needs_weights;   /* false: config.json or a tokenizer suffices */
} yk_hub_query;

/* yk_hub_is_name - whether text has the form of a model's name on the hub. */
bool yk_hub_is_name(const char *text);

/* yk_hub_find - *out: the directory of the snapshot, malloc'd, owned by the caller; it contains every file that the
 *   model needs. Errors: YK_E_IO if the model or revision is not in the cache, or its download is incomplete: names the
 *   missing files and the command that downloads them. YK_E_INVAL (a revision that leaves the cache), YK_E_FORMAT (an
 *   index of weights that is not JSON), YK_E_NOMEM. */
yk_status yk_hub_find(const yk_hub_query *query, char **out, yk_err *err);

#endif
