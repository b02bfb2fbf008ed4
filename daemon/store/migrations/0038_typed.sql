-- What becomes of answers in own words is looked up at the end of each turn: without reading all messages.
CREATE INDEX inbox_typed ON inbox (state) WHERE state GLOB 'typed:*';
