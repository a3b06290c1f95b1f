'use strict';

const CANDIDATES = [',', ';', '\t', '|'];

const countOutsideQuotes = (line, wanted) => {
  let inside = false;
  let count = 0;
  for (const char of line) {
    if (char === '"') {
      inside = !inside;
    } else if (char === wanted && !inside) {
      count += 1;
    }
  }
  return count;
};

/** The separator that cuts the first lines into the same number of pieces, more pieces first. */
function guessDelimiter(sample) {
  const lines = sample.split(/\r\n|\n|\r/).filter(Boolean).slice(0, 20);

  function score(candidate) {
    const counts = lines.map((line) => countOutsideQuotes(line, candidate));
    const least = Math.min(...counts);
    const even = counts.filter((count) => count === counts[0]).length / counts.length;
    return least === 0 ? 0 : even * 100 + least;
  }

  let best = ',';
  let bestScore = 0;
  for (const candidate of CANDIDATES) {
    const points = score(candidate);
    if (points > bestScore) {
      best = candidate;
      bestScore = points;
    }
  }
  return best;
}

/** True where the first row looks like names: no numbers, no repeats, nothing empty. */
function looksLikeHeader(rows) {
  if (rows.length === 0) {
    return false;
  }
  const first = rows[0].map((cell) => cell.trim());
  const unique = new Set(first).size === first.length;
  return unique && first.every((cell) => cell !== '' && Number.isNaN(Number(cell)));
}

const stripMark = (text) => (text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);

module.exports = { guessDelimiter, looksLikeHeader, stripMark, countOutsideQuotes };
