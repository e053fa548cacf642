#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gguf.h"
#include "base/model_path.h"
#include "base/utf8.h"
#include "text/special_tokens.h"
#include "text/tokenizer_parts.h"

/* Adds the special tokens of the files next to the tokenizer.json: added tokens, and the end-of-sequence token. */
static yk_status add_tokens(yk_tokenizer *tokenizer, const char *name, yk_json list, const yk_tokenizer_files *files,
                            yk_err *err)
{
  yk_json_doc *named = NULL, *all = NULL;
  yk_status status = yk_special_tokens_find(files, false, &named, err);
  if (status == YK_OK) status = yk_special_tokens_find(files, true, &all, err);
  const yk_more_tokens more = {yk_json_root(files->config), yk_json_root(named), yk_json_root(files->map)};
  if (status == YK_OK)
    status = yk_added_tokens_parse(&tokenizer->added, name, list, &more, &tokenizer->model.vocab,
                                   &tokenizer->normalizer, err);
  yk_json eos = yk_json_get(yk_json_root(all), "eos_token");
  tokenizer->eos_id = -1;
  if (status == YK_OK && yk_json_is(eos, YK_JSON_STRING))
    tokenizer->eos_id = yk_tokenizer_token_id(tokenizer, yk_json_text(eos), yk_json_length(eos));
  yk_json_free(named);
  yk_json_free(all);
  return status;
}

static yk_status parse(yk_tokenizer *tokenizer, const char *name, yk_json root, const yk_tokenizer_files *files,
                       yk_err *err)
{
  const char *version;
  if (!yk_json_is(root, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", name, yk_json_type_name(root));
  YK_TRY(yk_json_get_str(root, name, "version", false, &version, err));
  if (version && strcmp(version, "1.0") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: version \"%.48s\" is not supported (supported: 1.0)", name, version);
  YK_TRY(yk_bpe_parse(&tokenizer->model, name, yk_json_get(root, "model"), err));
  YK_TRY(yk_normalizer_parse(&tokenizer->normalizer, name, yk_json_get(root, "normalizer"), err));
  YK_TRY(yk_pre_tokenizer_parse(&tokenizer->pre_tokenizer, name, yk_json_get(root, "pre_tokenizer"), err));
  YK_TRY(add_tokens(tokenizer, name, yk_json_get(root, "added_tokens"), files, err));
  YK_TRY(yk_post_processor_parse(&tokenizer->post_processor, name, yk_json_get(root, "post_processor"),
                                 yk_tokenizer_vocab_size(tokenizer), err));
  return yk_decoder_parse(&tokenizer->decoder, name, yk_json_get(root, "decoder"), err);
}

/* Takes ownership of doc. */
static yk_status create(const char *name, yk_json_doc *doc, const yk_tokenizer_files *files, yk_tokenizer **out,
                        yk_err *err)
{
  yk_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  yk_status status = tokenizer ? parse(tokenizer, name, yk_json_root(doc), files, err)
                               : yk_err_set(err, YK_E_NOMEM, "%s: no memory", name);
  yk_json_free(doc);
  if (status == YK_OK)
    *out = tokenizer;
  else
    yk_tokenizer_free(tokenizer);
  return status;
}

yk_status yk_tokenizer_parse(const char *name, const char *json, size_t n_bytes, yk_tokenizer **out, yk_err *err)
{
  yk_json_doc *doc;
  YK_TRY(yk_json_parse(name, json, n_bytes, NULL, &doc, err));
  return create(name, doc, &(yk_tokenizer_files){0}, out, err);
}

static bool exists(const char *directory, const char *name)
{
  struct stat info;
  char path[4096]; /* on the stack: a failed allocation would look like a missing file */
  int n = snprintf(path, sizeof path, "%s/%s", directory, name);
  return n > 0 && n < (int)sizeof path && stat(path, &info) == 0;
}

/* dir: the directory of the files next to it; NULL: none of them is read. */
static yk_status load_file(const char *path, const char *dir, yk_tokenizer **out, yk_err *err)
{
  yk_json_doc *doc;
  yk_tokenizer_files files = {0};
  YK_TRY(yk_json_parse_file(path, NULL, &doc, err));
  yk_status status = dir ? yk_tokenizer_files_read(dir, yk_tokenizer_config_keeps, &files, err) : YK_OK;
  if (status == YK_OK)
    status = create(path, doc, &files, out, err);
  else
    yk_json_free(doc);
  yk_tokenizer_files_free(&files);
  return status;
}

/* Loads a file by its path; for a file named tokenizer.json the files of its directory are read too. */
static yk_status load_named(const char *path, yk_tokenizer **out, yk_err *err)
{
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strcmp(name, "tokenizer.json") != 0) return load_file(path, NULL, out, err);
  char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  yk_status status = dir ? load_file(path, dir, out, err) : yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  free(dir);
  return status;
}

/* Whether the path is a file of weights, which may have the tokenizer next to it. */
static bool is_model_file(const char *path)
{
  size_t n = strlen(path);
  struct stat info;
  return n > 4 && strcmp(path + n - 4, ".bin") == 0 && stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

yk_status yk_tokenizer_load(const char *path, yk_tokenizer **out, yk_err *err)
{
  struct stat info;
  if (yk_gguf_is_file(path)) return yk_gguf_refuse(path, err);
  if (is_model_file(path)) {
    char dir[YK_MODEL_PATH_BYTES];
    YK_TRY(yk_model_path_dir(path, dir, err));
    return yk_tokenizer_load(dir, out, err);
  }
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return load_named(path, out, err);
  if (!exists(path, "tokenizer.json") && exists(path, "tokenizer.model"))
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "%.60s: has tokenizer.model but no tokenizer.json; make one: python -c \"from transformers import "
        "AutoTokenizer as T; T.from_pretrained('.').save_pretrained('.')\" in that directory",
        path);
  if (!exists(path, "tokenizer.json") && exists(path, "tekken.json"))
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "%.60s: has tekken.json but no tokenizer.json: download the repository's tokenizer.json, or one of "
        "the same vocabulary, and name its folder with --tokenizer",
        path);
  yk_strbuf file = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&file, "%s/tokenizer.json", path);
  yk_status status =
      file.failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", path) : load_file(file.data, path, out, err);
  yk_strbuf_free(&file);
  return status;
}

void yk_tokenizer_free(yk_tokenizer *tokenizer)
{
  if (!tokenizer) return;
  yk_normalizer_free(&tokenizer->normalizer);
  yk_pre_tokenizer_free(&tokenizer->pre_tokenizer);
  yk_bpe_free(&tokenizer->model);
  yk_added_tokens_free(&tokenizer->added);
  yk_post_processor_free(&tokenizer->post_processor);
  yk_decoder_free(&tokenizer->decoder);
  free(tokenizer);
}

/* Scratch of one call of encode. */
typedef struct encoding {
  yk_pieces pieces, spare;
  yk_strbuf normal;
  yk_bpe_scratch scratch;
  yk_ids text_ids, ids;
  yk_spans plain;       /* ranges of the text that no added token may overlap; the caller's */
  yk_spans piece_plain; /* the same for a piece, with offsets from its beginning */
  size_t next_plain;    /* index of the first span that does not end before the piece */
} encoding;

static void encoding_free(encoding *work)
{
  yk_pieces_free(&work->pieces);
  yk_pieces_free(&work->spare);
  yk_strbuf_free(&work->normal);
  yk_bpe_scratch_free(&work->scratch);
  free(work->text_ids.data);
  free(work->piece_plain.items);
}

/* Sets work->piece_plain for the next piece of text. */
static yk_status find_piece_plain(encoding *work, yk_piece piece, yk_err *err)
{
  size_t end = piece.begin + piece.length;
  work->piece_plain.n = 0;
  while (work->next_plain < work->plain.n && work->plain.items[work->next_plain].end <= piece.begin) work->next_plain++;
  for (size_t i = work->next_plain; i < work->plain.n && work->plain.items[i].begin < end; i++) {
    yk_span span = work->plain.items[i];
    size_t first = span.begin > piece.begin ? span.begin : piece.begin, last = span.end < end ? span.end : end;
    if (!yk_spans_append(&work->piece_plain, first - piece.begin, last - piece.begin))
      return yk_err_set(err, YK_E_NOMEM, "no memory to encode a piece of %zu bytes", piece.length);
  }
  return YK_OK;
}

/* Normalises one piece of text and splits it at the normalised added tokens. */
static yk_status normalize_piece(const yk_tokenizer *tokenizer, encoding *work, yk_piece piece, yk_err *err)
{
  const yk_added_tokens *added = &tokenizer->added;
  yk_pieces *out = &work->spare;
  const char *text = work->pieces.text + piece.begin;
  yk_spans *plain = &work->piece_plain;
  YK_TRY(find_piece_plain(work, piece, err));
  if (tokenizer->normalizer.n_steps == 0)
    return yk_added_tokens_cut(added, &added->normalized, text, piece.length, plain, piece.begin, piece.at_start, out,
                               err);
  YK_TRY(yk_normalizer_apply(&tokenizer->normalizer, text, piece.length, &work->normal, plain, err));
  size_t begin = out->owned.length;
  yk_strbuf_append(&out->owned, work->normal.data, work->normal.length);
  return yk_added_tokens_cut(added, &added->normalized, work->normal.data, work->normal.length, plain, begin,
                             piece.at_start, out, err);
}

/* Splits the text at the added tokens and normalises the other pieces; work->pieces has the result. */
static yk_status extract_added_tokens(const yk_tokenizer *tokenizer, encoding *work, const char *text, size_t n_bytes,
                                      yk_err *err)
{
  work->pieces.text = text;
  YK_TRY(yk_added_tokens_cut(&tokenizer->added, &tokenizer->added.raw, text, n_bytes, &work->plain, 0, true,
                             &work->pieces, err));
  for (size_t i = 0; i < work->pieces.n; i++) {
    yk_piece piece = work->pieces.items[i];
    if (piece.id >= 0)
      yk_pieces_append(&work->spare, piece);
    else
      YK_TRY(normalize_piece(tokenizer, work, piece, err));
  }
  work->spare.text = tokenizer->normalizer.n_steps == 0 ? text : work->spare.owned.data;
  yk_pieces swap = work->pieces;
  work->pieces = work->spare;
  work->spare = swap;
  bool failed = work->pieces.failed || work->pieces.owned.failed || work->spare.failed;
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory to encode %zu bytes", n_bytes) : YK_OK;
}

static yk_status encode(const yk_tokenizer *tokenizer, encoding *work, const char *text, size_t n_bytes,
                        bool add_special_tokens, yk_err *err)
{
  YK_TRY(extract_added_tokens(tokenizer, work, text, n_bytes, err));
  YK_TRY(yk_pre_tokenizer_apply(&tokenizer->pre_tokenizer, &work->pieces, &work->spare, err));
  for (size_t i = 0; i < work->pieces.n; i++) {
    yk_piece piece = work->pieces.items[i];
    if (piece.id >= 0)
      yk_ids_append(&work->text_ids, piece.id);
    else
      YK_TRY(yk_bpe_encode(&tokenizer->model, &work->scratch, work->pieces.text + piece.begin, piece.length,
                           &work->text_ids, err));
  }
  yk_post_processor_apply(&tokenizer->post_processor, &work->text_ids, add_special_tokens, &work->ids);
  if (work->text_ids.failed || work->ids.failed)
    return yk_err_set(err, YK_E_NOMEM, "no memory for the tokens of %zu bytes", n_bytes);
  return YK_OK;
}

static yk_status check_plain(const yk_spans *plain, size_t n_bytes, yk_err *err)
{
  size_t at = 0;
  for (size_t i = 0; i < plain->n; i++) {
    yk_span span = plain->items[i];
    if (span.begin < at || span.end <= span.begin || span.end > n_bytes)
      return yk_err_set(err, YK_E_INVAL,
                        "plain text: expected spans in order within %zu bytes, found %zu to %zu after %zu", n_bytes,
                        span.begin, span.end, at);
    at = span.end;
  }
  return YK_OK;
}

yk_status yk_tokenizer_encode(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special_tokens,
                              int32_t **ids, size_t *n_ids, yk_err *err)
{
  return yk_tokenizer_encode_partly_plain(tokenizer, text, n_bytes, &(yk_spans){0}, add_special_tokens, ids, n_ids,
                                          err);
}

yk_status yk_tokenizer_encode_partly_plain(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                           const yk_spans *plain, bool add_special_tokens, int32_t **ids, size_t *n_ids,
                                           yk_err *err)
{
  YK_TRY(check_plain(plain, n_bytes, err));
  size_t n_valid = yk_utf8_valid_bytes(text, n_bytes);
  if (n_valid < n_bytes)
    return yk_err_set(err, YK_E_INVAL, "text: expected UTF-8, found byte 0x%02X at offset %zu",
                      (unsigned char)text[n_valid], n_valid);
  encoding work = {.plain = *plain};
  yk_status status = encode(tokenizer, &work, text, n_bytes, add_special_tokens, err);
  encoding_free(&work);
  if (status != YK_OK) {
    free(work.ids.data);
    return status;
  }
  *ids = work.ids.data;
  *n_ids = work.ids.n;
  return YK_OK;
}

int32_t yk_tokenizer_vocab_size(const yk_tokenizer *tokenizer)
{
  int32_t model = tokenizer->model.vocab.id_limit, added = tokenizer->added.contents.id_limit;
  return model > added ? model : added;
}

int32_t yk_tokenizer_token_id(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes)
{
  int32_t id = yk_vocab_id(&tokenizer->added.contents, text, n_bytes);
  return id >= 0 ? id : yk_vocab_id(&tokenizer->model.vocab, text, n_bytes);
}

int32_t yk_tokenizer_eos_id(const yk_tokenizer *tokenizer)
{
  return tokenizer->eos_id;
}

const char *yk_tokenizer_token_text(const yk_tokenizer *tokenizer, int32_t id, size_t *n_bytes)
{
  int32_t entry = yk_vocab_entry_of(&tokenizer->added.contents, id);
  if (entry >= 0) return yk_vocab_text(&tokenizer->added.contents, entry, n_bytes);
  entry = yk_vocab_entry_of(&tokenizer->model.vocab, id);
  return entry >= 0 ? yk_vocab_text(&tokenizer->model.vocab, entry, n_bytes) : NULL;
}
