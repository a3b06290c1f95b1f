'use strict';

const { CsvError } = require('./errors');

// Ja, nein, oui, non … in the languages of the exports we met (Größe, prénom and the like are only headings).
const YES = new Set(['yes', 'true', '1', 'ja', 'oui', 'sì', 'да']);
const NO = new Set(['no', 'false', '0', 'nein', 'non', 'нет']);

function toNumber(text, { decimal = '.' } = {}) {
  const normal = text.trim().split(decimal === ',' ? '.' : ',').join('').replace(decimal, '.');
  const value = Number(normal);
  if (normal === '' || Number.isNaN(value)) {
    throw new TypeError(`“${text}” is not a number`);
  }
  return value;
}

function toBoolean(text) {
  const word = text.trim().toLowerCase();
  if (YES.has(word)) {
    return true;
  }
  if (NO.has(word)) {
    return false;
  }
  throw new TypeError(`“${text}” is neither yes nor no`);
}

function toDate(text) {
  const match = /^(\d{1,2})\.(\d{1,2})\.(\d{4})$/.exec(text.trim());
  const value = match ? new Date(Date.UTC(+match[3], match[2] - 1, +match[1])) : new Date(text);
  if (Number.isNaN(value.getTime())) {
    throw new TypeError(`“${text}” is not a date`);
  }
  return value;
}

const CONVERTERS = { number: toNumber, boolean: toBoolean, date: toDate, string: (text) => text };

/** Returns a function from raw cells to an object with converted values. */
function rowMapper(names, types = {}) {
  const converters = names.map((name) => CONVERTERS[types[name] || 'string']);

  function convert(cell, index, line) {
    if (cell === '') {
      return null;
    }
    try {
      return converters[index](cell);
    } catch (error) {
      throw new CsvError(`column ${names[index]}: ${error.message}`, line);
    }
  }

  return function mapRow(cells, line) {
    if (cells.length > names.length) {
      throw new CsvError(`${cells.length} cells, but ${names.length} columns`, line);
    }
    const record = {};
    names.forEach((name, index) => {
      record[name] = convert(cells[index] ?? '', index, line);
    });
    return record;
  };
}

/** Makes headings usable as keys: `Straße / Nr.` becomes `straße_nr`, a second one `straße_nr_2`. */
function tidyNames(headings) {
  const seen = new Map();
  return headings.map((heading, index) => {
    const base = heading.trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '_').replace(/^_+|_+$/g, '') || `column_${index + 1}`;
    const count = (seen.get(base) || 0) + 1;
    seen.set(base, count);
    return count === 1 ? base : `${base}_${count}`;
  });
}

exports.toNumber = toNumber;
exports.toBoolean = toBoolean;
exports.toDate = toDate;
exports.rowMapper = rowMapper;
exports.tidyNames = tidyNames;
