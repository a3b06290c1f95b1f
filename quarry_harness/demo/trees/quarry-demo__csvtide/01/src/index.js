'use strict';

const { Parser } = require('./parser');
const { rowMapper, tidyNames } = require('./columns');
const { guessDelimiter, stripMark } = require('./sniff');
const { stringify } = require('./writer');
const { CsvStream, inBatches } = require('./stream');

function parseRows(text, options = {}) {
  const clean = stripMark(text);
  const rows = [];
  const parser = new Parser({ delimiter: guessDelimiter(clean), ...options }, (row) => rows.push(row));
  parser.write(clean);
  parser.end();
  return rows;
}

function parse(text, options = {}) {
  const [headings, ...rows] = parseRows(text, options);
  if (headings === undefined) {
    return [];
  }
  const mapRow = rowMapper(tidyNames(headings), options.types);
  return rows.map((row, index) => mapRow(row, index + 2));
}

const columnOf = (records, name) => records.map((record) => record[name]);

module.exports = { parse, parseRows, columnOf, stringify, CsvStream, inBatches };
