#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *zeros(size_t n)
{
    double *p = calloc(n ? n : 1, sizeof *p);
    if (!p)
        abort();
    return p;
}

void reference_philox(uint32_t words[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(words, c, sizeof c);
}

double reference_keep(reference_dropout_t drop, size_t i)
{
    if (drop.rate <= 0)
        return 1.0;
    const uint64_t count = drop.offset + i / 4;
    const uint32_t counter[4] = {(uint32_t)count, (uint32_t)(count >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)drop.seed, (uint32_t)(drop.seed >> 32)};
    uint32_t words[4];
    reference_philox(words, counter, key);
    return words[i % 4] / 4294967296.0 >= drop.rate ? 1.0 / (1.0 - drop.rate) : 0.0;
}

void reference_embedding_forward(double *x, const int *tokens, const double *wte, const double *wpe, int B,
                                 int T, int C, reference_dropout_t drop)
{
    for (int n = 0; n < B * T; n++) {
        for (int c = 0; c < C; c++) {
            const size_t i = (size_t)n * (size_t)C + (size_t)c;
            x[i] = (wte[tokens[n] * C + c] + wpe[n % T * C + c]) * reference_keep(drop, i);
        }
    }
}

void reference_embedding_backward(double *dwte, double *dwpe, const double *dx, const int *tokens, int B,
                                  int T, int C, reference_dropout_t drop)
{
    for (int n = 0; n < B * T; n++) {
        for (int c = 0; c < C; c++) {
            const size_t i = (size_t)n * (size_t)C + (size_t)c;
            const double d = dx[i] * reference_keep(drop, i);
            dwte[tokens[n] * C + c] += d;
            dwpe[n % T * C + c] += d;
        }
    }
}

static void moments(double *mean, double *rstd, const double *x, int C)
{
    double m = 0, v = 0;
    for (int c = 0; c < C; c++)
        m += x[c] / C;
    for (int c = 0; c < C; c++)
        v += (x[c] - m) * (x[c] - m) / C;
    *mean = m;
    *rstd = 1.0 / sqrt(v + 1e-5);
}

void reference_layernorm_forward(double *out, double *mean, double *rstd, const double *x,
                                 const double *gamma, const double *beta, int N, int C)
{
    for (int n = 0; n < N; n++) {
        const double *const row = x + (size_t)n * (size_t)C;
        moments(mean + n, rstd + n, row, C);
        for (int c = 0; c < C; c++)
            out[(size_t)n * (size_t)C + (size_t)c] = (row[c] - mean[n]) * rstd[n] * gamma[c] + beta[c];
    }
}

void reference_layernorm_backward(double *dx, double *dgamma, double *dbeta, const double *dout,
                                  const double *x, const double *gamma, int N, int C)
{
    for (int n = 0; n < N; n++) {
        const size_t row = (size_t)n * (size_t)C;
        double m, s, g1 = 0, g2 = 0;
        moments(&m, &s, x + row, C);
        for (int c = 0; c < C; c++) {
            const double xhat = (x[row + (size_t)c] - m) * s, d = dout[row + (size_t)c];
            g1 += d * gamma[c] / C;
            g2 += d * gamma[c] * xhat / C;
            dgamma[c] += d * xhat;
            dbeta[c] += d;
        }
        for (int c = 0; c < C; c++) {
            const double xhat = (x[row + (size_t)c] - m) * s;
            dx[row + (size_t)c] = s * (dout[row + (size_t)c] * gamma[c] - g1 - xhat * g2);
        }
    }
}

static double inverse_rms(const double *x, double eps, int C)
{
    double squares = 0;
    for (int c = 0; c < C; c++)
        squares += x[c] * x[c] / C;
    return 1.0 / sqrt(squares + eps);
}

void reference_rmsnorm_forward(double *out, double *rstd, const double *x, const double *gamma, double eps,
                               int N, int C)
{
    for (int n = 0; n < N; n++) {
        const size_t row = (size_t)n * (size_t)C;
        rstd[n] = inverse_rms(x + row, eps, C);
        for (int c = 0; c < C; c++)
            out[row + (size_t)c] = x[row + (size_t)c] * rstd[n] * gamma[c];
    }
}

/* d rstd/dx[c] = -rstd^3 x[c] / C */
void reference_rmsnorm_backward(double *dx, double *dgamma, const double *dout, const double *x,
                                const double *gamma, double eps, int N, int C)
{
    for (int n = 0; n < N; n++) {
        const double *const in = x + (size_t)n * (size_t)C, *const d = dout + (size_t)n * (size_t)C;
        const double s = inverse_rms(in, eps, C);
        double sum = 0;
        for (int c = 0; c < C; c++) {
            dgamma[c] += d[c] * in[c] * s;
            sum += d[c] * gamma[c] * in[c];
        }
        for (int c = 0; c < C; c++)
            dx[(size_t)n * (size_t)C + (size_t)c] = d[c] * gamma[c] * s - sum * s * s * s * in[c] / C;
    }
}

void reference_residual_forward(double *sum, const double *residual, const double *y, const double *bias,
                                int N, int C, reference_dropout_t drop)
{
    for (size_t i = 0; i < (size_t)N * (size_t)C; i++)
        sum[i] = residual[i] + (y[i] + bias[i % (size_t)C]) * reference_keep(drop, i);
}

void reference_residual_backward(double *dy, double *dbias, const double *dsum, int N, int C,
                                 reference_dropout_t drop)
{
    for (size_t i = 0; i < (size_t)N * (size_t)C; i++) {
        dy[i] = dsum[i] * reference_keep(drop, i);
        dbias[i % (size_t)C] += dy[i];
    }
}

static const double gelu_scale = 0.79788456080286535588; /* sqrt(2/pi) */

void reference_bias_gelu_forward(double *out, const double *x, const double *bias, int N, int C)
{
    for (size_t i = 0; i < (size_t)N * (size_t)C; i++) {
        const double u = x[i] + bias[i % (size_t)C];
        out[i] = 0.5 * u * (1.0 + tanh(gelu_scale * (u + 0.044715 * u * u * u)));
    }
}

void reference_bias_gelu_backward(double *dx, double *dbias, const double *dout, const double *x,
                                  const double *bias, int N, int C)
{
    for (size_t i = 0; i < (size_t)N * (size_t)C; i++) {
        const double u = x[i] + bias[i % (size_t)C], t = tanh(gelu_scale * (u + 0.044715 * u * u * u));
        const double slope =
            0.5 * (1.0 + t) + 0.5 * u * (1.0 - t * t) * gelu_scale * (1.0 + 3.0 * 0.044715 * u * u);
        dx[i] = dout[i] * slope;
        dbias[i % (size_t)C] += dx[i];
    }
}

static double dot(const double *a, const double *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* p[0..n-1] = softmax of s; returns log sum exp. */
static double softmax(double *p, const double *s, int n)
{
    double most = s[0], total = 0;
    for (int i = 1; i < n; i++)
        most = fmax(most, s[i]);
    for (int i = 0; i < n; i++)
        total += p[i] = exp(s[i] - most);
    for (int i = 0; i < n; i++)
        p[i] /= total;
    return most + log(total);
}

void reference_swiglu_forward(double *out, const double *x, int N, int F)
{
    for (int n = 0; n < N; n++) {
        const double *const gate = x + (size_t)n * 2 * (size_t)F, *const up = gate + F;
        for (int f = 0; f < F; f++)
            out[(size_t)n * (size_t)F + (size_t)f] = gate[f] / (1.0 + exp(-gate[f])) * up[f];
    }
}

void reference_swiglu_backward(double *dx, const double *dout, const double *x, int N, int F)
{
    for (int n = 0; n < N; n++) {
        const double *const gate = x + (size_t)n * 2 * (size_t)F, *const up = gate + F;
        double *const dgate = dx + (size_t)n * 2 * (size_t)F, *const dup = dgate + F;
        for (int f = 0; f < F; f++) {
            const double e = exp(-gate[f]), s = 1.0 / (1.0 + e), d = dout[(size_t)n * (size_t)F + (size_t)f];
            /* d (g s)/dg = s + g s^2 e, and s e = 1 - s */
            dgate[f] = d * up[f] * (s + gate[f] * s * (1.0 - s));
            dup[f] = d * gate[f] * s;
        }
    }
}

/* Where head `head` of the H+2KV of row n starts. */
static size_t head_at(size_t n, int heads, int head, int D)
{
    return (n * (size_t)heads + (size_t)head) * (size_t)D;
}

void reference_rope(double *out, const double *x, const double *table, int B, int T, int H, int KV, int D,
                    int sign)
{
    const int heads = H + 2 * KV, half = D / 2;
    memcpy(out, x, sizeof *out * head_at((size_t)B * (size_t)T, heads, 0, D));
    for (int n = 0; n < B * T; n++) {
        for (int h = 0; h < H + KV; h++) {
            const size_t at = head_at((size_t)n, heads, h, D);
            for (int d = 0; d < half; d++) {
                const double c = table[n % T * D + d], s = sign * table[n % T * D + half + d];
                const double a = x[at + (size_t)d], b = x[at + (size_t)(d + half)];
                out[at + (size_t)d] = a * c - b * s;
                out[at + (size_t)(d + half)] = a * s + b * c;
            }
        }
    }
}

void reference_attention_forward(double *out, double *lse, const double *qkv, int B, int T, int H, int KV,
                                 int D, reference_dropout_t drop)
{
    double *const s = zeros((size_t)T), *const p = zeros((size_t)T);
    const int heads = H + 2 * KV;
    for (int bh = 0; bh < B * H; bh++) {
        const int h = bh % H, key = H + h * KV / H;
        const size_t base = (size_t)(bh / H) * (size_t)T;
        for (int t = 0; t < T; t++) {
            const size_t row = (size_t)bh * (size_t)T + (size_t)t;
            for (int j = 0; j <= t; j++)
                s[j] = dot(qkv + head_at(base + (size_t)t, heads, h, D),
                           qkv + head_at(base + (size_t)j, heads, key, D), D) /
                       sqrt(D);
            lse[row] = softmax(p, s, t + 1);
            double *const o = out + head_at(base + (size_t)t, H, h, D);
            memset(o, 0, sizeof *o * (size_t)D);
            for (int j = 0; j <= t; j++) {
                const double *const v = qkv + head_at(base + (size_t)j, heads, key + KV, D);
                const double kept = p[j] * reference_keep(drop, row * (size_t)T + (size_t)j);
                for (int d = 0; d < D; d++)
                    o[d] += kept * v[d];
            }
        }
    }
    free(s);
    free(p);
}

void reference_attention_backward(double *dqkv, const double *dout, const double *qkv, int B, int T, int H,
                                  int KV, int D, reference_dropout_t drop)
{
    double *const s = zeros((size_t)T), *const p = zeros((size_t)T), *const dp = zeros((size_t)T);
    const int heads = H + 2 * KV;
    memset(dqkv, 0, sizeof *dqkv * head_at((size_t)B * (size_t)T, heads, 0, D));
    for (int bh = 0; bh < B * H; bh++) {
        const int h = bh % H, key = H + h * KV / H;
        const size_t base = (size_t)(bh / H) * (size_t)T;
        for (int t = 0; t < T; t++) {
            const size_t row = (size_t)bh * (size_t)T + (size_t)t,
                         q_at = head_at(base + (size_t)t, heads, h, D);
            const double *const q = qkv + q_at, *const d_o = dout + head_at(base + (size_t)t, H, h, D);
            double mean = 0;
            for (int j = 0; j <= t; j++)
                s[j] = dot(q, qkv + head_at(base + (size_t)j, heads, key, D), D) / sqrt(D);
            softmax(p, s, t + 1);
            for (int j = 0; j <= t; j++) {
                const double keep = reference_keep(drop, row * (size_t)T + (size_t)j);
                const size_t v_at = head_at(base + (size_t)j, heads, key + KV, D);
                for (int d = 0; d < D; d++)
                    dqkv[v_at + (size_t)d] += p[j] * keep * d_o[d];
                dp[j] = dot(d_o, qkv + v_at, D) * keep;
                mean += p[j] * dp[j];
            }
            for (int j = 0; j <= t; j++) {
                const double ds = p[j] * (dp[j] - mean) / sqrt(D);
                const size_t k_at = head_at(base + (size_t)j, heads, key, D);
                for (int d = 0; d < D; d++) {
                    dqkv[q_at + (size_t)d] += ds * qkv[k_at + (size_t)d];
                    dqkv[k_at + (size_t)d] += ds * q[d];
                }
            }
        }
    }
    free(s);
    free(p);
    free(dp);
}

void reference_causal_softmax_forward(double *probs, double *dropped, const double *scores, double scale,
                                      int heads, int T, reference_dropout_t drop)
{
    double *const s = zeros((size_t)T);
    for (size_t row = 0; row < (size_t)heads * (size_t)T; row++) {
        const int n = (int)(row % (size_t)T) + 1;
        const size_t at = row * (size_t)T;
        for (int j = 0; j < n; j++)
            s[j] = scores[at + (size_t)j] * scale;
        softmax(probs + at, s, n);
        for (int j = n; j < T; j++)
            probs[at + (size_t)j] = 0;
        for (int j = 0; j < T; j++)
            dropped[at + (size_t)j] = probs[at + (size_t)j] * reference_keep(drop, at + (size_t)j);
    }
    free(s);
}

void reference_causal_softmax_backward(double *dscores, const double *ddropped, const double *scores,
                                       double scale, int heads, int T, reference_dropout_t drop)
{
    const size_t n = (size_t)heads * (size_t)T * (size_t)T;
    double *const p = zeros(n), *const dropped = zeros(n);
    reference_causal_softmax_forward(p, dropped, scores, scale, heads, T, drop);
    for (size_t row = 0; row < (size_t)heads * (size_t)T; row++) {
        const size_t at = row * (size_t)T;
        double mean = 0;
        for (size_t i = at; i < at + (size_t)T; i++)
            mean += p[i] * ddropped[i] * reference_keep(drop, i);
        for (size_t i = at; i < at + (size_t)T; i++)
            dscores[i] = scale * p[i] * (ddropped[i] * reference_keep(drop, i) - mean);
    }
    free(p);
    free(dropped);
}

void reference_cross_entropy(double *losses, double *gradient, const double *logits, const int *targets,
                             int N, int V)
{
    for (int n = 0; n < N; n++) {
        const size_t row = (size_t)n * (size_t)V;
        losses[n] = softmax(gradient + row, logits + row, V);
        if (targets[n] < 0) {
            losses[n] = 0;
            memset(gradient + row, 0, (size_t)V * sizeof *gradient);
            continue;
        }
        losses[n] -= logits[row + (size_t)targets[n]];
        gradient[row + (size_t)targets[n]] -= 1.0;
    }
}

void reference_adamw(double *parameter, double *m, double *v, const double *gradient, size_t n,
                     size_t decayed, double scale, reference_adamw_t o)
{
    for (size_t i = 0; i < n; i++) {
        const double g = gradient[i] * scale;
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
        const double m_hat = m[i] / (1 - pow(o.beta1, o.step)), v_hat = v[i] / (1 - pow(o.beta2, o.step));
        const double decay = i < decayed ? o.weight_decay : 0;
        parameter[i] -= o.learning_rate * (m_hat / (sqrt(v_hat) + o.eps) + decay * parameter[i]);
    }
}
