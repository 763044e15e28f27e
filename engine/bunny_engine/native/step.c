/* One token of decode for a few sequences, from embedding rows to logits, in one call.
 *
 * A decode step is hundreds of small products, each of which reads a matrix once. Here the threads walk through
 * the layers side by side and meet where one needs what another made: four times a layer. Each thread keeps
 * the residual stream for itself and repeats what is small (norms, activations); products are shared out by rows.
 *
 * Matrices lie in blocks of LANES rows, column by column, so that a vector holds one column of a block and no sum
 * runs across a vector. A row's sum is made in one order, whatever the number of sequences or threads.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#endif

enum { LANES = 16, GROUP = 32, PIECE = 256, SPINS = 4000 };
enum { HALF, INT8, INT4 };

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias)); /* 8 floats */
typedef int32_t ivec __attribute__((vector_size(32)));

typedef struct {
    int kind, rows, columns; /* rows: a multiple of LANES */
    const uint8_t *codes;    /* HALF: float16 [rows/LANES, columns, LANES]; INT8: int8, the same;
                                INT4: [rows/LANES, columns/GROUP, GROUP/2, LANES], columns j and j + 16 in a byte */
    const float *scale;      /* INT8: [rows] */
    const uint16_t *steps;   /* INT4: float16 [rows/LANES, columns/GROUP, 2, LANES], scales and least values */
    const float *bias;       /* [rows] or none */
} matrix;

typedef struct {
    const float *attn_norm, *mlp_norm, *q_norm, *k_norm, *attn_post_norm, *mlp_post_norm; /* the last four or none */
    matrix qkv, out, gate_up, down;
    int window; /* tokens that the layer sees; 0: all */
} layer;

typedef struct {
    int layers, width, heads, kv_heads, head_dim, ffn, vocab, gelu, bfloat16; /* bfloat16: of keys and values */
    float eps;
    const float *norm;
    const layer *layer;
    matrix head;
} model;

typedef struct {
    char *k, *v;                   /* [layers, kv_heads, room, head_dim] */
    long room, at;                 /* at: tokens that are there, and the new one's place */
    const float *cos, *sin;        /* [head_dim / 2], of layers that see all */
    const float *local_cos, *local_sin; /* of layers with a window */
} sequence;

typedef struct {
    const model *m;
    int sequences;
    const sequence *sequence;
    const float *x;  /* [sequences, width] */
    float *logits;   /* [sequences, vocab] */
    float *shared;   /* what the threads make for each other; see `plan` */
    float *own;      /* each thread's own numbers */
    long own_size, pieces;
    float *qkv, *partial, *made, *wide; /* in `shared` */
    atomic_int threads, waiting, phase;
} team;

typedef struct {
    team *t;
    int thread;
} seat;

/* Numbers of few bits as vectors */

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec v) { *(vec *)p = v; }
static inline vec all(float x) { return (vec){x, x, x, x, x, x, x, x}; }

#if defined(__AVX2__) && defined(__F16C__)
static inline vec halves(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline ivec bytes(const uint8_t *p) { return (ivec)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline ivec signed_bytes(const uint8_t *p) {
    return (ivec)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
#else
static inline vec halves(const uint16_t *p) {
    vec v;
    for (int i = 0; i < 8; i++) {
        _Float16 h;
        memcpy(&h, p + i, 2);
        v[i] = (float)h;
    }
    return v;
}
static inline ivec bytes(const uint8_t *p) {
    ivec v;
    for (int i = 0; i < 8; i++) v[i] = p[i];
    return v;
}
static inline ivec signed_bytes(const uint8_t *p) {
    ivec v;
    for (int i = 0; i < 8; i++) v[i] = (int8_t)p[i];
    return v;
}
#endif

static inline vec floats(ivec v) { return __builtin_convertvector(v, vec); }

static inline vec kept(const char *p, long i, int bfloat16) { /* eight keys' or values' numbers from i on */
    if (!bfloat16) return load((const float *)p + i);
    uint16_t from[8];
    uint32_t to[8];
    vec v;
    memcpy(from, (const uint16_t *)p + i, sizeof from);
    for (int j = 0; j < 8; j++) to[j] = (uint32_t)from[j] << 16;
    memcpy(&v, to, sizeof v);
    return v;
}

static void keep(char *p, long i, float x, int bfloat16) {
    if (!bfloat16) {
        ((float *)p)[i] = x;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (x == x) bits += 0x7fff + (bits >> 16 & 1); /* to the nearest, ties to even */
    ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
}

static inline float sum(vec v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

static inline vec exponential(vec x) { /* relative error under 2e-7 between -87 and 88 */
    for (int i = 0; i < 8; i++) x[i] = x[i] < -87.0f ? -87.0f : x[i] > 88.0f ? 88.0f : x[i];
    vec n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* the nearest whole number */
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
    vec two;
    memcpy(&two, &power, sizeof two);
    return p * two;
}

/* The products of one block of rows with x */

static void half_block(const uint16_t *w, int columns, const float *x, vec out[2]) {
    vec a[4][2] = {{{0}}};
    int k = 0;
    for (; k + 4 <= columns; k += 4, w += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            a[j][0] += halves(w + j * LANES) * x[k + j];
            a[j][1] += halves(w + j * LANES + 8) * x[k + j];
        }
    for (; k < columns; k++, w += LANES) {
        a[0][0] += halves(w) * x[k];
        a[0][1] += halves(w + 8) * x[k];
    }
    for (int i = 0; i < 2; i++) out[i] = (a[0][i] + a[1][i]) + (a[2][i] + a[3][i]);
}

static void int8_block(const uint8_t *w, int columns, const float *scale, const float *x, vec out[2]) {
    vec a[4][2] = {{{0}}};
    int k = 0;
    for (; k + 4 <= columns; k += 4, w += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            a[j][0] += floats(signed_bytes(w + j * LANES)) * x[k + j];
            a[j][1] += floats(signed_bytes(w + j * LANES + 8)) * x[k + j];
        }
    for (; k < columns; k++, w += LANES) {
        a[0][0] += floats(signed_bytes(w)) * x[k];
        a[0][1] += floats(signed_bytes(w + 8)) * x[k];
    }
    for (int i = 0; i < 2; i++) out[i] = ((a[0][i] + a[1][i]) + (a[2][i] + a[3][i])) * load(scale + 8 * i);
}

static void int4_block(
    const uint8_t *w, int columns, const uint16_t *steps, const float *x, const float *sums, vec out[2]
) { /* Σ (code · scale + least) x, group by group */
    out[0] = out[1] = all(0);
    for (int g = 0; g < columns / GROUP; g++, x += GROUP, w += GROUP / 2 * LANES, steps += 2 * LANES) {
        vec a[2][2] = {{{0}}};
        for (int j = 0; j < GROUP / 2; j++)
            for (int i = 0; i < 2; i++) {
                ivec pair = bytes(w + j * LANES + 8 * i);
                a[0][i] += floats(pair & 15) * x[j];
                a[1][i] += floats(pair >> 4) * x[j + GROUP / 2];
            }
        for (int i = 0; i < 2; i++)
            out[i] += (a[0][i] + a[1][i]) * halves(steps + 8 * i) + halves(steps + LANES + 8 * i) * sums[g];
    }
}

static void share(int count, int thread, int threads, int *first, int *last) {
    *first = (int)((long)count * thread / threads);
    *last = (int)((long)count * (thread + 1) / threads);
}

/* This thread's rows of y = W x + b, for x [n, columns] and y [n, rows] */
static void product(const team *t, int thread, const matrix *w, const float *x, float *sums, float *y, int rows) {
    int first, last, groups = w->columns / GROUP, n = t->sequences;
    share(w->rows / LANES, thread, t->threads, &first, &last);
    if (w->kind == INT4)
        for (int g = 0; g < n * groups; g++) {
            const float *part = x + g * GROUP;
            sums[g] = sum((load(part) + load(part + 8)) + (load(part + 16) + load(part + 24)));
        }
    for (int block = first; block < last; block++)
        for (int s = 0; s < n; s++) {
            const float *mine = x + (long)s * w->columns;
            long numbers = (long)block * LANES * w->columns;
            vec found[2];
            if (w->kind == HALF)
                half_block((const uint16_t *)w->codes + numbers, w->columns, mine, found);
            else if (w->kind == INT8)
                int8_block(w->codes + numbers, w->columns, w->scale + block * LANES, mine, found);
            else
                int4_block(w->codes + numbers / 2, w->columns, w->steps + (long)block * groups * 2 * LANES, mine,
                           sums + s * groups, found);
            float lanes[LANES];
            store(lanes, found[0]);
            store(lanes + 8, found[1]);
            for (int i = 0, row = block * LANES; i < LANES && row < rows; i++, row++)
                y[(long)s * rows + row] = lanes[i] + (w->bias ? w->bias[row] : 0);
        }
}

/* What is between the products */

static void rms(const float *x, const float *weight, int size, float eps, float *out) {
    vec eight = all(0);
    int at = 0;
    for (; at + 8 <= size; at += 8) eight += load(x + at) * load(x + at);
    float squares = sum(eight);
    for (; at < size; at++) squares += x[at] * x[at];
    float scale = 1 / sqrtf(squares / (float)size + eps);
    for (int i = 0; i < size; i++) out[i] = x[i] * scale * weight[i];
}

static void turn(float *x, const float *cos, const float *sin, int half) {
    for (int i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = a * cos[i] - b * sin[i];
        x[i + half] = b * cos[i] + a * sin[i];
    }
}

static void activate(const model *m, const float *gate_up, float *out) { /* silu, or gelu by tanh, times up */
    for (int i = 0; i < m->ffn; i += 8) {
        int count = m->ffn - i < 8 ? m->ffn - i : 8;
        float gate[8] = {0}, up[8] = {0};
        memcpy(gate, gate_up + i, sizeof(float) * (size_t)count);
        memcpy(up, gate_up + m->ffn + i, sizeof(float) * (size_t)count);
        vec x = load(gate);
        vec inner = x;
        if (m->gelu) inner = 1.5957691216f * (x + 0.044715f * x * x * x);
        store(gate, x / (1.0f + exponential(-inner)) * load(up));
        memcpy(out + i, gate, sizeof(float) * (size_t)count);
    }
}

static inline float scored(const float *query, const char *keys, long at, int size, int bfloat16) {
    vec a[4] = {{0}};
    int i = 0;
    for (; i + 32 <= size; i += 32)
        for (int j = 0; j < 4; j++) a[j] += load(query + i + 8 * j) * kept(keys, at + i + 8 * j, bfloat16);
    for (; i < size; i += 8) a[0] += load(query + i) * kept(keys, at + i, bfloat16);
    return sum((a[0] + a[1]) + (a[2] + a[3]));
}

/* Up to 32 channels, from the i-th on, of a weighed sum of values */
static inline void weigh(
    const float *weights, long count, const char *values, long at, int size, int i, int bfloat16, float *out
) {
    vec a[4] = {{0}};
    if (size - i >= 32)
        for (long n = 0; n < count; n++, at += size)
            for (int j = 0; j < 4; j++) a[j] += kept(values, at + 8 * j, bfloat16) * weights[n];
    else
        for (long n = 0; n < count; n++, at += size)
            for (int j = 0; j < (size - i) / 8; j++) a[j] += kept(values, at + 8 * j, bfloat16) * weights[n];
    for (int j = 0; j < 4 && i + 8 * j < size; j++) store(out + 8 * j, a[j]);
}

/* Attention of one sequence's queries of one key head to one piece of its tokens: for each query the sum of the
 * weighed values, the sum of the weights and the largest score. Who has the last piece writes the new token first.
 */
static void attend(team *t, const layer *l, long index, int s, int head, long piece) {
    const model *m = t->m;
    const sequence *q = t->sequence + s;
    int size = m->head_dim, group = m->heads / m->kv_heads, b = m->bfloat16;
    const float *row = t->qkv + (long)s * (m->heads + 2 * m->kv_heads) * size;
    const float *cos = l->window ? q->local_cos : q->cos, *sin = l->window ? q->local_sin : q->sin;
    long start = piece * PIECE, stop = start + PIECE, lowest = l->window ? q->at + 1 - l->window : 0;
    long base = (index * m->kv_heads + head) * q->room * size;
    if (stop > q->at) {
        float key[1024];
        stop = q->at + 1;
        memcpy(key, row + (m->heads + head) * size, sizeof(float) * (size_t)size);
        if (l->k_norm) rms(key, l->k_norm, size, m->eps, key);
        turn(key, cos, sin, size / 2);
        for (int i = 0; i < size; i++) {
            keep(q->k, base + q->at * size + i, key[i], b);
            keep(q->v, base + q->at * size + i, row[(m->heads + m->kv_heads + head) * size + i], b);
        }
    }
    if (start < lowest) start = lowest;
    for (int g = 0; g < group; g++) {
        float query[1024], score[PIECE + 8];
        float *found = t->partial + (((long)s * m->heads + head * group + g) * t->pieces + piece) * (size + 2);
        memset(found, 0, sizeof(float) * (size_t)(size + 2));
        found[size + 1] = -INFINITY;
        if (start >= stop) continue; /* before the window */
        memcpy(query, row + (head * group + g) * size, sizeof(float) * (size_t)size);
        if (l->q_norm) rms(query, l->q_norm, size, m->eps, query);
        turn(query, cos, sin, size / 2);
        float scale = 1 / sqrtf((float)size), most = -INFINITY;
        for (int i = 0; i < size; i++) query[i] *= scale;
        for (long at = start; at < stop; at++) {
            float value = score[at - start] = scored(query, q->k, base + at * size, size, b);
            if (value > most || value != value) most = value; /* what is no number must show */
        }
        vec weights = all(0);
        long count = stop - start;
        for (long i = count; i < count + 8; i++) score[i] = -INFINITY;
        for (long i = 0; i < count; i += 8) {
            vec e = exponential(load(score + i) - most);
            for (int j = 0; j < 8; j++)
                if (i + j >= count) e[j] = 0;
            store(score + i, e);
            weights += e;
        }
        for (int i = 0; i < size; i += 32) weigh(score, count, q->v, base + start * size + i, size, i, b, found + i);
        found[size] = sum(weights);
        found[size + 1] = most;
    }
}

/* The pieces of every query joined: out [sequences, heads · head_dim] */
static void join(const team *t, float *out) {
    int size = t->m->head_dim;
    for (int s = 0; s < t->sequences; s++)
        for (int head = 0; head < t->m->heads; head++, out += size) {
            const float *part = t->partial + ((long)s * t->m->heads + head) * t->pieces * (size + 2);
            long pieces = t->sequence[s].at / PIECE + 1;
            float most = -INFINITY, weights = 0;
            for (long p = 0; p < pieces; p++) {
                float value = part[p * (size + 2) + size + 1];
                if (value > most || value != value) most = value;
            }
            memset(out, 0, sizeof(float) * (size_t)size);
            for (long p = 0; p < pieces; p++, part += size + 2) {
                float share = part[size + 1] == -INFINITY ? 0 : expf(part[size + 1] - most);
                weights += share * part[size];
                for (int i = 0; i < size; i++) out[i] += share * part[i];
            }
            for (int i = 0; i < size; i++) out[i] /= weights;
        }
}

static void add(const team *t, const float *made, const float *norm, float *x, float *spare) {
    int width = t->m->width;
    for (int s = 0; s < t->sequences; s++, x += width, made += width) {
        const float *y = made;
        if (norm) {
            rms(made, norm, width, t->m->eps, spare);
            y = spare;
        }
        for (int i = 0; i < width; i++) x[i] += y[i];
    }
}

static void normed(const team *t, const float *x, const float *weight, float *out) {
    int width = t->m->width;
    for (int s = 0; s < t->sequences; s++) rms(x + (long)s * width, weight, width, t->m->eps, out + (long)s * width);
}

/* Threads */

static void meet(team *t) {
    int phase = atomic_load(&t->phase);
    if (atomic_fetch_add(&t->waiting, 1) == t->threads - 1) {
        atomic_store(&t->waiting, 0);
        atomic_store(&t->phase, phase + 1);
        return;
    }
    for (long spins = 0; atomic_load(&t->phase) == phase; spins++) { /* on a busy machine the other one needs the core */
        if (spins > SPINS) sched_yield();
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

static long wide_of(const model *m) { /* the widest row that is multiplied */
    long widest = m->width, q = (long)m->heads * m->head_dim;
    if (q > widest) widest = q;
    return m->ffn > widest ? m->ffn : widest;
}

static void *walk(void *argument) {
    const seat *mine = argument;
    team *t = mine->t;
    const model *m = t->m;
    while (!atomic_load(&t->threads)) sched_yield(); /* until it is known how many came */
    int thread = mine->thread, n = t->sequences, rows = (m->heads + 2 * m->kv_heads) * m->head_dim;
    float *x = t->own + thread * t->own_size, *y = x + (long)n * m->width, *sums = y + n * wide_of(m);
    memcpy(x, t->x, sizeof(float) * (size_t)n * (size_t)m->width);
    for (long index = 0; index < m->layers; index++) {
        const layer *l = m->layer + index;
        normed(t, x, l->attn_norm, y);
        product(t, thread, &l->qkv, y, sums, t->qkv, rows);
        meet(t);
        long task = 0;
        for (int s = 0; s < n; s++)
            for (long piece = t->sequence[s].at / PIECE; piece >= 0; piece--)
                for (int head = 0; head < m->kv_heads; head++)
                    if (task++ % t->threads == thread) attend(t, l, index, s, head, piece);
        meet(t);
        join(t, y);
        product(t, thread, &l->out, y, sums, t->made, m->width);
        meet(t);
        add(t, t->made, l->attn_post_norm, x, y);
        normed(t, x, l->mlp_norm, y);
        product(t, thread, &l->gate_up, y, sums, t->wide, 2 * m->ffn);
        meet(t);
        for (int s = 0; s < n; s++) activate(m, t->wide + (long)s * 2 * m->ffn, y + (long)s * m->ffn);
        product(t, thread, &l->down, y, sums, t->made, m->width);
        meet(t);
        add(t, t->made, l->mlp_post_norm, x, y);
    }
    normed(t, x, m->norm, y);
    product(t, thread, &m->head, y, sums, t->logits, m->vocab);
    return 0;
}

/* Floats of work space for so many sequences, threads and pieces; with `t`, where in it everything lies */
static long plan(team *t, const model *m, long n, long threads, long pieces) {
    long wide = wide_of(m), qkv = n * (m->heads + 2 * m->kv_heads) * m->head_dim;
    long partial = n * m->heads * pieces * (m->head_dim + 2), made = n * m->width, gate_up = n * 2 * m->ffn;
    long own = n * (m->width + wide + wide / GROUP + 1);
    if (t) {
        t->qkv = t->shared;
        t->partial = t->qkv + qkv;
        t->made = t->partial + partial;
        t->wide = t->made + made;
        t->own = t->wide + gate_up;
        t->own_size = own;
        t->pieces = pieces;
    }
    return qkv + partial + made + gate_up + threads * own;
}

static long pieces_of(int n, const sequence *sequences) {
    long most = 0;
    for (int s = 0; s < n; s++)
        if (sequences[s].at / PIECE > most) most = sequences[s].at / PIECE;
    return most + 1;
}

long work_floats(const model *m, int n, const sequence *sequences, int threads) {
    return plan(0, m, n, threads, pieces_of(n, sequences));
}

/* x [n, width] in; logits [n, vocab] out; the new keys and values are written into the sequences */
void step(const model *m, int n, const sequence *sequences, const float *x, float *logits, float *work, int threads) {
    enum { MOST = 256 };
    pthread_t others[MOST];
    seat seats[MOST];
    team t = {.m = m, .sequences = n, .sequence = sequences, .x = x, .logits = logits, .shared = work};
    if (threads > MOST) threads = MOST;
    plan(&t, m, n, threads, pieces_of(n, sequences));
    int came = 1;
    for (; came < threads; came++) {
        seats[came] = (seat){&t, came};
        if (pthread_create(&others[came], 0, walk, &seats[came])) break; /* then with those that are there */
    }
    atomic_store(&t.threads, came);
    seats[0] = (seat){&t, 0};
    walk(&seats[0]);
    for (int i = 1; i < came; i++) pthread_join(others[i], 0);
}
